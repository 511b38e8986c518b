//! The server that all clones of a harness call.

use std::{
    collections::VecDeque,
    future::pending,
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::{BoxFuture, poll_fn};
use http::{Request, Response};
use tonic::{Status, body::Body, codegen::StdError};
use tower_service::Service;

use super::{lock, process::Process};
use crate::{
    IdempotencyLayer,
    operations::{DESCRIBE, OperationService},
    proto::v1::operation_service_server::OperationServiceServer,
    rejection::{Reason, Rejection},
};

/// The server: a running process, which is replaced by a new one when it dies.
pub(super) struct Server {
    start: Box<Start>,
    running: Mutex<RunningProcess>,
    /// The fates of the next calls, in order.
    fates: Mutex<VecDeque<Fate>>,
    /// The time by which the layer's clock is ahead.
    ahead: Mutex<Duration>,
}

/// Starts a process. The error says why its layer cannot be built.
type Start = dyn Fn(Process) -> Result<RunningProcess, String> + Send + Sync;

/// A process that runs, with its layer, and the service behind that.
#[derive(Clone)]
pub(super) struct RunningProcess {
    pub(super) process: Process,
    pub(super) layer: IdempotencyLayer,
    /// Tells a client whether the layer protects a procedure.
    operations: OperationServiceServer<OperationService>,
    service: Arc<dyn DynService>,
}

impl RunningProcess {
    pub(super) fn new<S>(process: Process, layer: IdempotencyLayer, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
        S::Error: Into<StdError>,
        S::Future: Send,
    {
        Self { operations: layer.operations().build(), process, layer, service: Arc::new(Mutex::new(service)) }
    }
}

/// The fate of a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// Its answer is lost.
    AnswerLost,
    /// The process dies when its handler has ended.
    Crash,
    /// It is rejected.
    Rejected(Reason),
    /// It does not arrive.
    RequestLost,
}

/// The server of a call whose process dies when its handler has ended. It comes with the request's extensions.
#[derive(Clone)]
pub(super) struct Crash(pub(super) Arc<Server>);

impl Crash {
    /// Lets the process die. Never returns.
    pub(super) async fn strike<T>(self, process: &Process) -> T {
        process.die();
        // In a task of its own: this one may be dropped when its caller gets no answer.
        tokio::spawn(async move { self.0.restart().await });
        pending().await
    }
}

impl Server {
    pub(super) fn new(
        start: impl Fn(Process) -> Result<RunningProcess, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let running = Mutex::new(start(Process::default())?);
        Ok(Self { start: Box::new(start), running, fates: Mutex::default(), ahead: Mutex::default() })
    }

    pub(super) fn running(&self) -> RunningProcess {
        lock(&self.running).clone()
    }

    /// Lets the process die, if it has not, and starts the next one.
    ///
    /// # Panics
    ///
    /// The layer of the next one cannot be built: then there is none.
    pub(super) async fn restart(&self) {
        let next = (self.start)(Process::default());
        let died = match &next {
            Ok(next) => {
                next.layer.advance(*lock(&self.ahead));
                mem::replace(&mut *lock(&self.running), next.clone())
            }
            Err(_) => self.running(),
        };
        died.process.die();
        died.process.close().await;
        if let Err(error) = next {
            panic!("{error}");
        }
    }

    pub(super) fn advance(&self, by: Duration) {
        *lock(&self.ahead) += by;
        self.running().layer.advance(by);
    }

    /// Sets the fate of the next call that has none yet.
    pub(super) fn decide(&self, fate: Fate) {
        lock(&self.fates).push_back(fate);
    }

    /// Takes the fate of a call that begins; `None` if nothing happens to it.
    pub(super) fn next_fate(&self) -> Option<Fate> {
        lock(&self.fates).pop_front()
    }

    /// Answers a call; `None` if no answer comes.
    pub(super) async fn answer(
        self: Arc<Self>,
        mut request: Request<Body>,
    ) -> Option<Result<Response<Body>, StdError>> {
        if request.uri().path() == DESCRIBE {
            let RunningProcess { process, mut operations, .. } = self.running();
            return process.answer(async { operations.call(request).await.map_err(Into::into) }).await;
        }
        let fate = self.next_fate();
        match fate {
            Some(Fate::RequestLost) => return None,
            Some(Fate::Rejected(reason)) => return Some(Ok(Status::from(Rejection::of(reason)).into_http())),
            Some(Fate::Crash) => drop(request.extensions_mut().insert(Crash(Arc::clone(&self)))),
            Some(Fate::AnswerLost) | None => {}
        }
        let RunningProcess { process, service, .. } = self.running();
        let answer = process.answer(service.call(request)).await;
        answer.filter(|_| !matches!(fate, Some(Fate::AnswerLost)))
    }
}

/// A service without its type, of which each call takes a clone.
trait DynService: Send + Sync {
    fn call(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, StdError>>;
}

impl<S> DynService for Mutex<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Error: Into<StdError>,
    S::Future: Send,
{
    fn call(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, StdError>> {
        let mut service = lock(self).clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(request).await.map_err(Into::into)
        })
    }
}
