//! The address of a server.

use std::{path::Path, sync::Arc};

use http::{Uri, uri::Authority};
use rustls::{ClientConfig, crypto::ring, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{connection, failure::Failure};

pub(in crate::check) struct Address {
    authority: Authority,
    port: u16,
    /// Comes before the path of a call: empty, or such as `/api`.
    prefix: String,
    tls: Option<TlsConnector>,
}

impl Address {
    /// Reads an `http://` or `https://` address.
    pub(in crate::check) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, Failure> {
        let unread = |why: &str| Failure::Input(format!("{url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| unread("no address, such as http://127.0.0.1:50051"))?;
        let authority = uri.authority().cloned().ok_or_else(|| unread("no host"))?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(connector(authorities)?), 443),
            _ => return Err(unread("begin it with http:// or https://")),
        };
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { port: authority.port_u16().unwrap_or(port), authority, prefix, tls })
    }

    /// The host and the port, as grpcurl takes them.
    pub(in crate::check) fn target(&self) -> String {
        format!("{}:{}", self.authority.host(), self.port)
    }

    pub(in crate::check) fn is_plaintext(&self) -> bool {
        self.tls.is_none()
    }

    /// The address of a call, by its path.
    pub(super) fn uri(&self, path: &str) -> Result<Uri, http::Error> {
        let scheme = if self.is_plaintext() { "http" } else { "https" };
        let path = format!("{}{path}", self.prefix);
        Uri::builder().scheme(scheme).authority(self.authority.clone()).path_and_query(path).build()
    }

    pub(super) async fn connect(&self) -> Result<Stream, std::io::Error> {
        // An IPv6 address is in brackets in a URL alone.
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((host, self.port)).await?;
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Stream::Plain(socket)) };
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        Ok(Stream::Encrypted(Box::new(tls.connect(name, socket).await?)))
    }
}

pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

fn connector(authorities: Option<&Path>) -> Result<TlsConnector, Failure> {
    let roots = connection::authorities(authorities).map_err(|error| Failure::Input(format!("--ca {error}")))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::Input(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
