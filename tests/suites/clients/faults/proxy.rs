//! A proxy between clients and the sample: it loses, delays and distorts.

use std::{
    collections::HashMap,
    convert::Infallible,
    error::Error,
    future::{pending, ready},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use distortion::distort;
use fastrand::Rng;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{net::TcpListener, sync::Notify, time::sleep};
use tonic::body::Body;
use uuid::Uuid;

/// How long a late call is held. Its client has given it up by then, and asks again later.
const LATE: Duration = Duration::from_millis(1500);

/// The header of an operation whose handler fails until something is made that it needs. The proxy makes it as soon as the key is freed.
pub(crate) const NEEDS: &str = "x-needs";

/// Makes what an operation needs, from the value of its header.
type Needs = dyn Fn(String) -> BoxFuture<'static, ()> + Send + Sync;

type Failure = Box<dyn Error + Send + Sync>;

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Passes,
    Distorted,
    /// The connection breaks before the server gets it.
    LostBefore,
    /// The connection breaks when the server has answered.
    LostAfter,
    /// It hangs until its client has given it up, and arrives then. Its answer is lost.
    Late,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    way: Arc<Way>,
}

struct Way {
    /// The server, which may have been started again at another address.
    server: Mutex<SocketAddr>,
    /// Whether the network is faulty.
    is_bad: AtomicBool,
    random: Mutex<Rng>,
    /// The keys of operations with needs whose first call was seen, each with what tells that the key was freed.
    freed: Mutex<HashMap<String, Arc<Notify>>>,
    calls: Mutex<HashMap<String, usize>>,
    needs: Box<Needs>,
    http1: Client<HttpConnector, Full<Bytes>>,
    http2: Client<HttpConnector, Full<Bytes>>,
}

impl Proxy {
    /// Starts a proxy. `needs` makes what an operation needs.
    pub(crate) async fn start(
        server: SocketAddr,
        needs: impl Fn(String) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let client = || Client::builder(TokioExecutor::new());
        let way = Arc::new(Way {
            server: Mutex::new(server),
            is_bad: AtomicBool::new(true),
            random: Mutex::new(Rng::new()),
            freed: Mutex::default(),
            calls: Mutex::default(),
            needs: Box::new(needs),
            http1: client().build_http(),
            http2: client().http2_only(true).build_http(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let accepting = Arc::clone(&way);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (way, cut) = (Arc::clone(&accepting), Arc::<Notify>::default());
                let (builder, cuts) = (auto::Builder::new(TokioExecutor::new()), Arc::clone(&cut));
                let service = service_fn(move |request| Arc::clone(&way).carry(request, Arc::clone(&cuts)));
                tokio::spawn(async move {
                    // A connection may end in any way.
                    tokio::select! {
                        _ = builder.serve_connection(TokioIo::new(connection), service) => {}
                        () = cut.notified() => {}
                    }
                });
            }
        });
        Self { address, way }
    }

    /// Calls go to a server that was started again.
    pub(crate) fn point_to(&self, server: SocketAddr) {
        *self.way.server.lock().expect("no panic") = server;
    }

    /// How many calls with a key have come.
    pub(crate) fn calls(&self, key: Uuid) -> usize {
        self.way.calls.lock().expect("no panic").get(&key.to_string()).copied().unwrap_or_default()
    }

    pub(crate) fn be_quiet(&self, is_quiet: bool) {
        self.way.is_bad.store(!is_quiet, Ordering::Relaxed);
    }
}

impl Way {
    async fn carry(self: Arc<Self>, request: Request<Incoming>, cut: Arc<Notify>) -> Result<Response<Body>, Failure> {
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, body.collect().await?.to_bytes());
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (key, needs) = (header("idempotency-key").unwrap_or_default(), header(NEEDS));
        *self.calls.lock().expect("no panic").entry(key.clone()).or_default() += 1;
        let (fate, freed) = self.fate(&key, needs.is_some());
        match fate {
            Fate::Passes => self.forward(request).await,
            Fate::Distorted => {
                let mut random = self.random.lock().expect("no panic").fork();
                Ok(distort(self.forward(request).await?, &mut random).await)
            }
            Fate::LostBefore => self.lose(&cut).await,
            Fate::LostAfter => {
                let _ = self.forward(request).await;
                self.lose(&cut).await
            }
            Fate::Late => {
                // Its client may go away meanwhile.
                tokio::spawn(async move {
                    tokio::select! {
                        () = freed.notified() => {}
                        () = sleep(LATE) => {}
                    }
                    self.forward(request).await
                });
                pending::<Result<_, Infallible>>().await.map_err(Into::into)
            }
        }
    }

    /// Decides what becomes of a call. Of an operation that needs something, the first call is late, and the next finds its key free.
    fn fate(&self, key: &str, has_needs: bool) -> (Fate, Arc<Notify>) {
        if !self.is_bad.load(Ordering::Relaxed) {
            return (Fate::Passes, Arc::default());
        }
        if has_needs {
            let mut freed = self.freed.lock().expect("no panic");
            if let Some(known) = freed.get(key) {
                return (Fate::Passes, Arc::clone(known));
            }
            let known = Arc::<Notify>::default();
            freed.insert(key.to_owned(), Arc::clone(&known));
            return (Fate::Late, known);
        }
        // More would use up the clients' budget of further attempts.
        let fate = match self.random.lock().expect("no panic").u32(..24) {
            0..3 => Fate::Distorted,
            3 => Fate::LostBefore,
            4..6 => Fate::LostAfter,
            6 => Fate::Late,
            _ => Fate::Passes,
        };
        (fate, Arc::default())
    }

    async fn forward(&self, request: Request<Bytes>) -> Result<Response<Body>, Failure> {
        let server = *self.server.lock().expect("no panic");
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        parts.uri = format!("http://{server}{path}").parse()?;
        let client = if parts.version == Version::HTTP_2 { &self.http2 } else { &self.http1 };
        let (key, needs) = (parts.headers.get("idempotency-key").cloned(), parts.headers.get(NEEDS).cloned());
        let Ok(answer) = client.request(Request::from_parts(parts, Full::new(body))).await else {
            // It is away, or has been killed.
            let page = Response::builder().status(StatusCode::BAD_GATEWAY).header("content-type", "text/html");
            return Ok(page.body(Body::new(Full::new(Bytes::from("<h1>it is away</h1>"))))?);
        };
        let (parts, body) = answer.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned();
        let is_freed =
            |headers: &HeaderMap| headers.get("idempotency-outcome").is_some_and(|outcome| outcome == "freed");
        if let (Some(key), Some(needs)) = (key, needs)
            && (is_freed(&parts.headers) || trailers.as_ref().is_some_and(is_freed))
        {
            (self.needs)(needs.to_str()?.to_owned()).await;
            let freed = self.freed.lock().expect("no panic").get(key.to_str()?).cloned();
            if let Some(freed) = freed {
                freed.notify_one();
            }
        }
        let data = body.to_bytes();
        let body = match trailers {
            // The headers end the stream then, as they did.
            None if data.is_empty() => Body::empty(),
            trailers => Body::new(Full::new(data).with_trailers(ready(trailers.map(Ok)))),
        };
        Ok(Response::from_parts(parts, body))
    }

    /// Resets the call, or cuts its connection, with all other calls on it.
    async fn lose(&self, connection: &Notify) -> Result<Response<Body>, Failure> {
        if self.random.lock().expect("no panic").u32(..12) == 0 {
            connection.notify_one();
            pending::<()>().await;
        }
        Err(h2::Error::from(h2::Reason::CANCEL).into())
    }
}
