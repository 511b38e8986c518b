//! A connection, and the calls on it.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use h2::{
    Ping, PingPong, Reason, RecvStream, SendStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{HeaderMap, Method};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Mutex,
    task::{JoinHandle, yield_now},
    time::timeout,
};

use super::{
    Address, Answer, Protocol,
    address::Stream,
    answer::{Lost, Whole},
};

/// How long a server may take to accept a connection, and to answer a call.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest response that is read, in bytes.
const LONGEST: usize = 16 << 20;

/// How often the task of a connection gets its turn to write what was sent. The socket takes a message at once.
const TURNS: usize = 4;

/// A connection. Dropping it cuts it: its socket is closed, and the server is told nothing else.
pub(in crate::check) struct Connection {
    address: Arc<Address>,
    requests: SendRequest<Bytes>,
    pings: Mutex<PingPong>,
    socket: JoinHandle<()>,
}

/// A call, encoded.
pub(in crate::check) struct Request {
    pub(in crate::check) path: String,
    pub(in crate::check) protocol: Protocol,
    pub(in crate::check) headers: HeaderMap,
    pub(in crate::check) body: Bytes,
}

/// A place in a call at which it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum Stop {
    BeforeMessage,
    InMessage,
    AfterMessage,
    /// The message has ended the request.
    AfterRequest,
    /// So long after the request.
    Later(Duration),
    /// The headers of the answer have arrived.
    AtAnswer,
}

impl Connection {
    pub(in crate::check) async fn open(address: &Arc<Address>) -> Result<Self, Lost> {
        timeout(PATIENCE, Self::opened(address)).await.map_err(|_| Lost::late(PATIENCE))?
    }

    async fn opened(address: &Arc<Address>) -> Result<Self, Lost> {
        match address.connect().await? {
            Stream::Plain(socket) => Self::over(address, socket).await,
            Stream::Encrypted(socket) => Self::over(address, *socket).await,
        }
    }

    async fn over<T>(address: &Arc<Address>, socket: T) -> Result<Self, Lost>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (requests, mut connection) = Builder::new().enable_push(false).handshake(socket).await?;
        let pings = connection.ping_pong().ok_or_else(|| Lost::new("the connection has no pings"))?;
        let socket = tokio::spawn(async move {
            // Each call on it is told the same error.
            let _ = connection.await;
        });
        let connection = Self { address: Arc::clone(address), requests, pings: Mutex::new(pings), socket };
        // A server that does not speak HTTP/2 does not answer it.
        connection.is_read().await?;
        Ok(connection)
    }

    pub(in crate::check) fn is_open(&self) -> bool {
        !self.socket.is_finished()
    }

    /// Calls, and returns the answer, or why there is none.
    pub(in crate::check) async fn call(&self, request: &Request) -> Answer {
        let answer = async {
            let (response, _) = self.send(request, true).await?;
            let response = read(response.await?).await?;
            request.protocol.answer(response)
        };
        timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(Lost::late(PATIENCE))).into()
    }

    /// Begins a call, and resets its stream.
    pub(in crate::check) async fn reset(&self, request: &Request, stop: Stop) -> Result<(), Lost> {
        let (_response, mut stream) = self.begin(request, stop).await?;
        stream.send_reset(Reason::CANCEL);
        Ok(())
    }

    /// Begins a call, and cuts the connection.
    pub(in crate::check) async fn cut(self, request: &Request, stop: Stop) -> Result<(), Lost> {
        let begun = self.begin(request, stop).await?;
        // Before the stream is dropped, which would reset it.
        drop(self);
        drop(begun);
        Ok(())
    }

    /// Calls as far as it is to go, until the server has read that.
    async fn begin(&self, request: &Request, stop: Stop) -> Result<(Response, SendStream<Bytes>), Lost> {
        let begun = async {
            let is_whole = matches!(stop, Stop::AfterRequest | Stop::Later(_) | Stop::AtAnswer);
            let (response, mut stream) = self.send(request, is_whole).await?;
            let mut response = Response::Awaited(response);
            match stop {
                Stop::BeforeMessage | Stop::AfterRequest => {}
                Stop::InMessage => stream.send_data(request.body.slice(..request.body.len() / 2), false)?,
                Stop::AfterMessage => stream.send_data(request.body.clone(), false)?,
                Stop::Later(time) => tokio::time::sleep(time).await,
                Stop::AtAnswer => response = response.begins().await?,
            }
            self.is_read().await?;
            Ok((response, stream))
        };
        timeout(PATIENCE, begun).await.map_err(|_| Lost::late(PATIENCE))?
    }

    /// Sends the headers of a call, and all of it if it is whole.
    async fn send(&self, request: &Request, is_whole: bool) -> Result<(ResponseFuture, SendStream<Bytes>), Lost> {
        let mut head = http::Request::new(());
        *head.method_mut() = Method::POST;
        *head.uri_mut() = self.address.uri(&request.path)?;
        *head.headers_mut() = request.headers.clone();
        let (response, mut stream) = self.requests.clone().ready().await?.send_request(head, false)?;
        if is_whole {
            stream.send_data(request.body.clone(), true)?;
        }
        Ok((response, stream))
    }

    /// Waits until the server has read what was sent. A ping overtakes what waits to be written, so that is written first. It is one ping:
    /// some servers close a connection on which a client pings often.
    async fn is_read(&self) -> Result<(), Lost> {
        for _ in 0..TURNS {
            yield_now().await;
        }
        self.pings.lock().await.ping(Ping::opaque()).await?;
        Ok(())
    }
}

/// A response that is not read: dropping it would reset its stream.
enum Response {
    Awaited(ResponseFuture),
    Begun { _body: RecvStream },
}

impl Response {
    async fn begins(self) -> Result<Self, Lost> {
        match self {
            Self::Awaited(response) => Ok(Self::Begun { _body: response.await?.into_body() }),
            begun @ Self::Begun { .. } => Ok(begun),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.socket.abort();
    }
}

/// Reads a response to its end.
async fn read(response: http::Response<RecvStream>) -> Result<Whole, Lost> {
    let (head, mut stream) = response.into_parts();
    let mut body = BytesMut::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
        if body.len() > LONGEST {
            return Err(Lost::new("a response of more than 16 MiB"));
        }
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    Ok(Whole { status: head.status, headers: head.headers, body: body.freeze(), trailers })
}
