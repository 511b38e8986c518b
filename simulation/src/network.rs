//! The network between clients and servers, as a service that generated clients and the client's layer take: [`Network`].

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::{sync::oneshot, task::AbortHandle};
use tonic::{Status, body::Body};
use tower::Service;

use crate::{
    server::Server,
    world::{Link, Random},
};

/// A client's way to the servers: each request goes to one of them. Without HTTP/2: a request and its response are one message each.
#[derive(Clone)]
pub struct Network {
    servers: Arc<Vec<Server>>,
    link: Link,
    random: Arc<Mutex<Random>>,
}

impl Network {
    /// Makes the way of one client.
    pub fn new(servers: &Arc<Vec<Server>>, link: Link, random: Random) -> Self {
        Self { servers: Arc::clone(servers), link, random: Arc::new(Mutex::new(random)) }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for Network {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Body>, Status>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.random.lock().unwrap_or_else(PoisonError::into_inner).one_of(&self.servers).clone();
        let link = self.link.clone();
        Box::pin(async move {
            let cut = || Status::unavailable("the connection was cut");
            link.carry().await.map_err(|_| cut())?;
            let (answer, answered) = oneshot::channel();
            let served = tokio::spawn(async move {
                let _ = answer.send(server.serve(request).await);
            });
            let stream = Stream { served: served.abort_handle(), link: link.clone() };
            let response = answered.await.ok().flatten().ok_or_else(cut)?;
            let carried = link.carry().await;
            drop(stream);
            carried.map_err(|_| cut())?;
            Ok(response)
        })
    }
}

/// A call on its way. A client that goes away resets its stream: the server hears of it, unless that is lost, too.
struct Stream {
    served: AbortHandle,
    link: Link,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let (served, link) = (self.served.clone(), self.link.clone());
        if !served.is_finished() {
            tokio::spawn(async move {
                let _ = link.carry().await;
                served.abort();
            });
        }
    }
}
