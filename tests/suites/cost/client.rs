//! Allocations of the client's layer for a call that succeeds at once.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use tonic::client::GrpcService;
use tonic_idempotency_client::IdempotencyClientLayer;
use tonic_idempotency_tests::shop::proto::shop_client::ShopClient;
use tower::Service;

use crate::prelude::*;

/// A server that reads every call, and answers it with an empty message at once.
#[derive(Clone)]
struct AtOnce;

impl Service<Request<Body>> for AtOnce {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        request.into_body().collect().now_or_never().expect("it is there at once").expect("a message");
        let trailers =
            HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))]);
        let body = Full::new(Bytes::from_static(&[0; 5])).with_trailers(ready(Some(Ok(trailers))));
        ready(Ok(Response::new(Body::new(body))))
    }
}

/// The allocations of a call: the fewest of several calls, because new keys share memory now and then.
fn allocations<S>(mut client: ShopClient<S>) -> u64
where
    S: GrpcService<
            Body,
            ResponseBody: http_body::Body<Data = Bytes, Error: Into<tonic::codegen::StdError> + Send> + Send + 'static,
            Error: Into<tonic::codegen::StdError>,
        >,
{
    let runtime = runtime();
    let counts = (0..20).map(|_| {
        let request = CreateOrderRequest { name: "shop".to_owned(), ..CreateOrderRequest::default() };
        let info = allocation_counter::measure(|| {
            runtime.block_on(client.create_order(request)).expect("an order");
        });
        info.count_total
    });
    counts.min().expect("some calls")
}

#[test]
fn of_a_call_that_succeeds_at_once_do_not_exceed_three() {
    let bare = allocations(ShopClient::new(AtOnce));
    let layer = IdempotencyClientLayer::new(FILE_DESCRIPTOR_SET).expect("the layer");
    let wrapped = allocations(ShopClient::new(layer.layer(AtOnce)));
    let layer = wrapped - bare;
    assert!(layer <= 3, "{layer} allocations beyond the client's {bare}");
}
