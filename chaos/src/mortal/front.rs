//! The front of the servers: it passes each call on to one of them, and notes its key.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, task::JoinSet};
use tonic::{Status, body::Body};

use super::call::number_in;
use crate::{error::Error, fleet::Rotation};

/// The calls as they are on the wire, by operation.
pub(super) type Seen = BTreeMap<u32, Calls>;

/// The calls of an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) attempts: usize,
    pub(super) keys: BTreeSet<String>,
}

/// The front. Ends when dropped.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    next: AtomicUsize,
    rotation: Arc<Rotation>,
    seen: Arc<Mutex<Seen>>,
}

impl Front {
    pub(super) async fn start(rotation: Arc<Rotation>) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let seen = Arc::default();
        let shared = Arc::new(Shared { next: AtomicUsize::new(0), rotation, seen: Arc::clone(&seen) });
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let shared = Arc::clone(&shared);
                        async move { Ok::<_, Infallible>(shared.pass_on(request).await) }
                    });
                    // Fails when the client dies.
                    let _ =
                        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, seen, _serving: serving })
    }

    /// What it has seen.
    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    async fn pass_on(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return Status::cancelled("the client is gone").into_http() };
        let message = body.to_bytes();
        if let Some(number) = number_in(&message) {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = seen.entry(number).or_default();
            calls.attempts += 1;
            calls.keys.extend(parts.headers.get("idempotency-key").and_then(|key| Some(key.to_str().ok()?.to_owned())));
        }
        let backends = self.rotation.all();
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(backend) = backends.get(turn % backends.len().max(1)) else {
            return Status::unavailable("no server").into_http();
        };
        let request = Request::from_parts(parts, Body::new(Full::new(message)));
        match backend.forward(request).await {
            Ok(response) => response,
            Err(error) => Status::unavailable(format!("the server is gone: {error}")).into_http(),
        }
    }
}
