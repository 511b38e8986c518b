//! The front of the servers: it passes each call on to one of them, notes its key, and distorts answers as proxies do.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rand::{RngExt as _, rngs::ChaCha8Rng};
use tokio::{net::TcpListener, task::JoinSet};
use tonic::{Status, body::Body};

use super::{call::number_in, distortion::Distortion};
use crate::{
    error::Error,
    fleet::Rotation,
    seed::{Seed, Subject},
};

/// The calls as they are on the wire, by operation.
pub(super) type CallsOnWire = BTreeMap<u32, WireCalls>;

/// The calls of an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct WireCalls {
    pub(super) attempts: usize,
    pub(super) keys: BTreeSet<String>,
    /// Whether an answer of a server was passed on as it is.
    pub(super) is_answered: bool,
}

/// The front. Ends when dropped.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) address: SocketAddr,
    state: Arc<FrontState>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct FrontState {
    next: AtomicUsize,
    rotation: Arc<Rotation>,
    rng: Mutex<ChaCha8Rng>,
    distorted: Mutex<BTreeMap<Distortion, usize>>,
    seen: Mutex<CallsOnWire>,
}

impl Front {
    pub(super) async fn start(rotation: Arc<Rotation>, seed: Seed) -> Result<Self, Error> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (next, distorted, seen) = Default::default();
        let rng = Mutex::new(seed.rng(Subject::Front));
        let state = Arc::new(FrontState { next, rotation, rng, distorted, seen });
        let own = Arc::clone(&state);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let state = Arc::clone(&state);
                        async move { Ok::<_, Infallible>(state.pass_on(request).await) }
                    });
                    // Fails when the client dies.
                    let _ =
                        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, state: own, _serving: serving })
    }

    /// Returns the calls that it has seen, by operation.
    pub(super) fn seen(&self) -> CallsOnWire {
        lock(&self.state.seen).clone()
    }

    /// The answers that it has distorted.
    pub(super) fn distorted(&self) -> BTreeMap<Distortion, usize> {
        lock(&self.state.distorted).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrontState {
    async fn pass_on(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return Status::cancelled("the client is gone").into_http() };
        let message = body.to_bytes();
        let number = number_in(&message);
        if let Some(number) = number {
            let mut seen = lock(&self.seen);
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
        let (distortion, random, reaches) = {
            let mut rng = lock(&self.rng);
            (Distortion::next(&mut rng), rng.random_range(0..1 << 20), rng.random_range(0..4) > 0)
        };
        let Some(distortion) = distortion else {
            return match backend.forward(request).await {
                Ok(response) => {
                    if let Some(number) = number {
                        lock(&self.seen).entry(number).or_default().is_answered = true;
                    }
                    response
                }
                Err(error) => Status::unavailable(format!("the server is gone: {error}")).into_http(),
            };
        };
        *lock(&self.distorted).entry(distortion).or_default() += 1;
        // Some are in place of a call that the server has never seen.
        let answer = if reaches { backend.forward(request).await.ok() } else { None };
        distortion.of(answer, random).await
    }
}
