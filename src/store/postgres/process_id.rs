//! Reads the process id that the server has sent at the login of a connection.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex};
use tokio_postgres::{
    CancelToken,
    tls::{ChannelBinding, TlsConnect, TlsStream},
};

/// The room for a request for TLS and a request to cancel, which are shorter.
const REQUESTS: usize = 64;

/// The length of a process id and a secret, with which a request to cancel ends.
const KEY: usize = 8;

/// Returns the process id that the server has sent at the login; `None` if it cannot be read. It is read from a request to cancel, which is
/// sent nowhere.
pub(super) async fn process_id(token: &CancelToken) -> Option<i32> {
    let (client, mut server) = duplex(REQUESTS);
    // The answer to a request for TLS, if there is one: yes.
    server.write_all(b"S").await.ok()?;
    token.cancel_query_raw(client, InMemory).await.ok()?;
    let mut requests = Vec::with_capacity(REQUESTS);
    server.read_to_end(&mut requests).await.ok()?;
    let (_, key) = requests.split_last_chunk::<KEY>()?;
    Some(i32::from_be_bytes(*key.first_chunk()?))
}

/// TLS for a stream in memory, which leaves it as it is.
struct InMemory;

impl TlsConnect<DuplexStream> for InMemory {
    type Stream = InMemoryStream;
    type Error = Infallible;
    type Future = Ready<Result<InMemoryStream, Infallible>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(InMemoryStream(stream)))
    }
}

struct InMemoryStream(DuplexStream);

impl TlsStream for InMemoryStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for InMemoryStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for InMemoryStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::{Config, config::SslMode};

    use super::*;

    /// A server that answers a login, after a request for TLS if there is one, and says that its process is this one.
    async fn log_in(mut stream: DuplexStream, process: i32) -> io::Result<DuplexStream> {
        let mut length = stream.read_i32().await?;
        if length == 8 {
            stream.read_i32().await?;
            stream.write_all(b"S").await?;
            length = stream.read_i32().await?;
        }
        let mut startup = vec![0; usize::try_from(length).expect("a length") - 4];
        stream.read_exact(&mut startup).await?;
        let mut answer = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c".to_vec();
        answer.extend(process.to_be_bytes());
        answer.extend(b"keysZ\0\0\0\x05I");
        stream.write_all(&answer).await?;
        Ok(stream)
    }

    #[tokio::test]
    async fn is_that_of_the_login_with_tls_and_without() {
        for (mode, process) in [(SslMode::Disable, 7), (SslMode::Prefer, i32::MAX), (SslMode::Require, -7)] {
            let (client, server) = duplex(1024);
            let mut config = Config::new();
            config.user("api").ssl_mode(mode);
            let (connected, server) = tokio::join!(config.connect_raw(client, InMemory), log_in(server, process));
            let (_server, (client, connection)) = (server.expect("a login"), connected.expect("a connection"));
            let connection = tokio::spawn(connection);
            assert_eq!(process_id(&client.cancel_token()).await, Some(process), "{mode:?}");
            connection.abort();
        }
    }
}
