//! Time and allocations of the client's layer, for a call that is answered at once, without a network.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context as Task, Poll},
    time::Instant,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use tokio::runtime;
use tonic::{
    body::Body,
    client::GrpcService,
    codegen::{Body as HttpBody, StdError},
};
use tonic_idempotency_client::IdempotencyClientLayer;
use tower::Service;
use tower_layer::Layer as _;

use super::echo::{
    FILE_DESCRIPTOR_SET, SAY,
    proto::{SayRequest, echo_client::EchoClient},
};
use crate::{Error, context::Context, spread::Spread};

const ROUNDS: usize = 60;
const CALLS: usize = 1000;

/// The cost of a call of a generated client, first without and then with the layer.
pub(super) struct AtClient {
    pub(super) nanoseconds: [Spread; 2],
    pub(super) allocations: [u64; 2],
    /// The nanoseconds that the layer adds, round by round.
    pub(super) of_the_layer: Spread,
}

/// Measures on this thread only.
pub(super) fn measure(context: &Context) -> Result<AtClient, Error> {
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).procedure(SAY).build()?;
    let (mut bare, mut wrapped) = (EchoClient::new(AtOnce), EchoClient::new(layer.layer(AtOnce)));
    let (mut nanoseconds, mut allocations) = ([Vec::new(), Vec::new()], [u64::MAX; 2]);
    let calls = context.count(CALLS);
    for _ in 0..context.rounds(ROUNDS) {
        for (way, (time, allocated)) in [batch(&mut bare, calls)?, batch(&mut wrapped, calls)?].into_iter().enumerate()
        {
            nanoseconds[way].push(time);
            allocations[way] = allocations[way].min(allocated);
        }
    }
    let added = nanoseconds[0].iter().zip(&nanoseconds[1]).map(|(bare, wrapped)| wrapped - bare);
    let of_the_layer = Spread::of(added.collect::<Vec<_>>());
    Ok(AtClient { nanoseconds: nanoseconds.map(Spread::of), allocations, of_the_layer })
}

/// Returns the nanoseconds of one call of a sequence, and the allocations of the call that allocates least.
fn batch<S>(client: &mut EchoClient<S>, calls: usize) -> Result<(f64, u64), Error>
where
    S: GrpcService<
            Body,
            ResponseBody: HttpBody<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
            Error: Into<StdError>,
        >,
{
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let request = || SayRequest { payload: vec![7; 100].into(), reply_bytes: 0 };
    let begun = Instant::now();
    runtime.block_on(async {
        for _ in 0..calls {
            client.say(request()).await?;
        }
        Ok::<_, Error>(())
    })?;
    let time = begun.elapsed().as_nanos() as f64 / calls as f64;
    let mut least = u64::MAX;
    for _ in 0..8 {
        let mut result = Ok(());
        let call = || result = runtime.block_on(client.say(request())).map(drop);
        least = least.min(allocation_counter::measure(call).count_total);
        result?;
    }
    Ok((time, least))
}

/// A server that reads every call, and answers it with an empty message at once.
#[derive(Clone)]
pub(super) struct AtOnce;

impl Service<Request<Body>> for AtOnce {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        request.into_body().collect().now_or_never().expect("it is there at once").expect("a message");
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
        let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(ready(Some(Ok(trailers))));
        ready(Ok(Response::new(Body::new(body))))
    }
}
