//! Connections with TLS.

use std::{env, fs, net::TcpListener, path::PathBuf, time::Duration};

use scratch_redis::Server;
use tonic_idempotency::store::{Store as _, StoreErrorKind};
use tonic_idempotency_redis::{
    RedisStore,
    redis::{Client, TlsCertificates},
};
use uuid::Uuid;

use crate::{
    record::{acquire, assert_replayed, claim, complete},
    servers::{PATIENCE, start},
};

const SHORT: Duration = Duration::from_secs(1);

/// A server with a certificate that it has signed itself.
struct Encrypted {
    certificate: String,
    port: u16,
    _files: Files,
    _server: Server,
}

impl Encrypted {
    fn start() -> Option<Self> {
        let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        let certificate = signed.cert.pem();
        let files = Files::new();
        let [chain, key] = [files.0.join("certificate.pem"), files.0.join("key.pem")];
        fs::write(&chain, &certificate).expect("a file");
        fs::write(&key, signed.signing_key.serialize_pem()).expect("a file");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("a port");
        let [port, chain, trusted, key] = [
            format!("tls-port {}", free.port()),
            format!("tls-cert-file {}", chain.display()),
            format!("tls-ca-cert-file {}", chain.display()),
            format!("tls-key-file {}", key.display()),
        ];
        let server = start(&[&port, &chain, &trusted, &key, "tls-auth-clients no"])?;
        Some(Self { certificate, port: free.port(), _files: files, _server: server })
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}/", self.port)
    }
}

/// A directory that is removed when this is dropped.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let path = env::temp_dir().join(format!("redis-tls-{}", Uuid::new_v4().simple()));
        fs::create_dir(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_record_is_kept_on_a_server_whose_certificate_is_trusted() {
    let Some(server) = Encrypted::start() else { return };
    let root_cert = Some(server.certificate.clone().into_bytes());
    let trusting = TlsCertificates { client_tls: None, root_cert };
    let store = RedisStore::single(Client::build_with_tls(server.url(), trusting).expect("an address"));
    let store = store.timeout(PATIENCE);
    store.verify().await.expect("the server is set up");
    let first = claim();
    acquire(&store, &first).await;
    complete(&store, &first, "first").await;
    assert_replayed(&store, &first, "first").await;
}

#[tokio::test]
async fn nothing_is_sent_to_a_server_whose_certificate_is_not_trusted() {
    let Some(server) = Encrypted::start() else { return };
    let store = RedisStore::single(Client::open(server.url()).expect("an address")).timeout(SHORT);
    let error = store.claim(&claim()).await.expect_err("no trust");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Unreachable, false), "{error:?}");
}
