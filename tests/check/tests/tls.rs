//! A server behind TLS, whose certificate has to be its own.

use std::{fs, sync::Arc};

use rcgen::CertifiedKey;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{
    command::{METHOD, REQUEST, check},
    server::Server,
};

/// Forwards what it decrypts to a server, and returns its port.
async fn forward(address: String, certificate: &CertifiedKey<rcgen::KeyPair>) -> u16 {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key)
        .expect("a certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, address) = (acceptor.clone(), address.clone());
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await.expect("the server");
                if let Ok(mut client) = acceptor.accept(socket).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_and_the_host_are_verified() {
    let server = Server::start(None);
    let folder = tempfile::tempdir().expect("a folder");
    let address = server.url().trim_start_matches("http://").to_owned();
    let signed = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, other) = (signed(), signed());
    let port = forward(address, &certificate).await;
    let file = |name: &str, certificate: &CertifiedKey<rcgen::KeyPair>| {
        let path = folder.path().join(name);
        fs::write(&path, certificate.cert.pem()).expect("a file");
        path.display().to_string()
    };
    let (own, other) = (file("own.pem", &certificate), file("other.pem", &other));
    for (host, authority, status, expected) in [
        ("localhost", own.as_str(), 0, "1 ok"),
        ("127.0.0.1", own.as_str(), 3, "not valid for name"),
        ("localhost", other.as_str(), 3, "certificate"),
        ("localhost", "none.pem", 2, "--ca none.pem"),
    ] {
        let url = format!("https://{host}:{port}");
        let said = check(&[&url, METHOD, "--request", REQUEST, "--yes", "--only", "R1", "--ca", authority]);
        let text = said.stdout + &said.stderr;
        assert!(
            said.status == Some(status) && text.contains(expected),
            "{host}, {authority}: {:?} {text}",
            said.status
        );
    }
}
