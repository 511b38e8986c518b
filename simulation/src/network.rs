//! The network between clients and servers, as a service that generated clients and the client's layer take: [`Network`].

use std::{
    fmt,
    future::pending,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use distortion::distort;
use futures_util::{future::BoxFuture, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Collected, Full, StreamBody};
use tokio::{select, sync::oneshot, task::AbortHandle, time::sleep};
use tonic::{Status, body::Body};
use tower::Service;

use crate::{
    plan::{Operation, Pace},
    server::Server,
    world::{Link, Random},
};

/// A client's way to the servers: each request goes to one of them. Without HTTP/2: a request and its response are one message each.
#[derive(Clone)]
pub struct Network {
    servers: Arc<Vec<Server>>,
    link: Link,
    random: Arc<Mutex<Random>>,
    /// The server and the pace of the first request, until it is sent.
    first: Arc<Mutex<Option<(usize, Pace)>>>,
}

impl Network {
    /// Makes the way of one client.
    pub fn new(servers: &Arc<Vec<Server>>, link: Link, random: Random, operation: &Operation) -> Self {
        let (random, first) = (Mutex::new(random), Mutex::new(Some((operation.server, operation.body))));
        Self { servers: Arc::clone(servers), link, random: Arc::new(random), first: Arc::new(first) }
    }

    /// Returns the same way, with the next request to this server.
    #[must_use]
    pub fn to(&self, server: usize) -> Self {
        Self { first: Arc::new(Mutex::new(Some((server, Pace::AtOnce)))), ..self.clone() }
    }

    /// Returns to which server the next request goes, and how it arrives.
    fn next(&self) -> (Server, Pace) {
        match self.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((server, pace)) => (self.servers[server].clone(), pace),
            None => {
                let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
                (random.one_of(&self.servers).clone(), Pace::AtOnce)
            }
        }
    }
}

impl Network {
    /// Returns to which server a proxy sends the request, too, if it does so. It does not touch those that have no key.
    fn again(&self, request: &Request<Body>, pace: Pace) -> Option<Server> {
        let may_be_sent = pace == Pace::AtOnce && request.headers().contains_key("idempotency-key");
        (may_be_sent && self.link.repeats()).then(|| {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            random.one_of(&self.servers).clone()
        })
    }
}

/// Has a request arrive at a further server, whose answer goes nowhere. Returns the request.
async fn send_twice(request: Request<Body>, to: Server, link: Link) -> Request<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let mut again = Request::new(Body::new(Full::new(body.clone())));
    (*again.method_mut(), *again.uri_mut()) = (head.method.clone(), head.uri.clone());
    again.headers_mut().clone_from(&head.headers);
    tokio::spawn(async move {
        if link.carry().await.is_ok() {
            drop(to.serve(again).await);
        }
    });
    Request::from_parts(head, Body::new(Full::new(body)))
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
        let link = self.link.clone();
        let (server, pace) = self.next();
        let next_cut = link.next_cut();
        let cut = || Status::unavailable("the connection was cut");
        let again = self.again(&request, pace);
        let called = async move {
            let mut request = at_pace(request, pace).await;
            if let Some(again) = again {
                request = send_twice(request, again, link.clone()).await;
            }
            link.carry().await.map_err(|_| cut())?;
            let (answer, answered) = oneshot::channel();
            let served = tokio::spawn(async move {
                let _ = answer.send(server.serve(request).await);
            });
            let stream = Stream { served: served.abort_handle(), link: link.clone(), is_silent: pace == Pace::Never };
            let response = answered.await.ok().flatten().ok_or_else(cut)?;
            let carried = link.carry().await;
            drop(stream);
            carried.map_err(|_| cut())?;
            Ok(match link.distorts() {
                Some(mut random) => distort(response, random.generator()).await,
                None => response,
            })
        };
        Box::pin(async move {
            select! {
                biased;
                answer = called => answer,
                () = next_cut => Err(cut()),
            }
        })
    }
}

/// Has the message of a request arrive in two parts, at its pace.
async fn at_pace(request: Request<Body>, pace: Pace) -> Request<Body> {
    if pace == Pace::AtOnce {
        return request;
    }
    let (head, body) = request.into_parts();
    let mut first = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let second = first.split_off(first.len() / 2);
    let parts = stream::unfold((first, Some(second)), move |(part, next)| async move {
        if part.is_empty() {
            return None;
        }
        if next.is_none() {
            match pace {
                Pace::AtOnce => {}
                Pace::Stops(time) => sleep(time).await,
                Pace::Never => pending().await,
            }
        }
        Some((Ok::<_, Status>(Frame::data(part)), (next.unwrap_or_default(), None)))
    });
    Request::from_parts(head, Body::new(StreamBody::new(parts)))
}

/// A call on its way. A client that goes away resets its stream: the server hears of it, unless that is lost, too.
struct Stream {
    served: AbortHandle,
    link: Link,
    is_silent: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let (served, link) = (self.served.clone(), self.link.clone());
        if !self.is_silent && !served.is_finished() {
            tokio::spawn(async move {
                let _ = link.carry().await;
                served.abort();
            });
        }
    }
}
