//! Tests of your own service behind the layer (feature `testing`).
//!
//! A [`Harness`] has the service, the layer and a store in one process, and makes calls with keys through a generated
//! client. No socket, no database and no waiting is needed; with another store than [`MemoryStore`](crate::store::MemoryStore),
//! the same test runs on a database.
//!
//! ```
//! # use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
//! # use bytes::{Buf, BufMut, Bytes};
//! # use http_body_util::{Full, StreamBody};
//! # use prost::Message;
//! # use tonic::{IntoRequest, Response, Status, body::Body, codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder}};
//! # use tonic_idempotency::testing::InProcess;
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct CreateOrderRequest { #[prost(string, tag = "1")] item: String }
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct CreateOrderResponse { #[prost(string, tag = "1")] order_id: String }
//! # #[derive(Default)] struct Prost<T>(std::marker::PhantomData<T>);
//! # impl<T: Message + Default + 'static> Codec for Prost<T> {
//! #     type Encode = CreateOrderRequest; type Decode = T; type Encoder = Self; type Decoder = Self;
//! #     fn encoder(&mut self) -> Self { Self(Default::default()) }
//! #     fn decoder(&mut self) -> Self { Self(Default::default()) }
//! # }
//! # impl<T> Encoder for Prost<T> {
//! #     type Item = CreateOrderRequest; type Error = Status;
//! #     fn encode(&mut self, item: CreateOrderRequest, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
//! #         item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
//! #     }
//! # }
//! # impl<T: Message + Default> Decoder for Prost<T> {
//! #     type Item = T; type Error = Status;
//! #     fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
//! #         T::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
//! #     }
//! # }
//! # struct OrderServiceClient(tonic::client::Grpc<InProcess>);
//! # impl OrderServiceClient {
//! #     fn new(channel: InProcess) -> Self { Self(tonic::client::Grpc::new(channel)) }
//! #     async fn create_order(
//! #         &mut self, request: impl IntoRequest<CreateOrderRequest>,
//! #     ) -> Result<Response<CreateOrderResponse>, Status> {
//! #         let path = http::uri::PathAndQuery::from_static("/shop.v1.Orders/CreateOrder");
//! #         self.0.unary(request.into_request(), path, Prost::<CreateOrderResponse>::default()).await
//! #     }
//! # }
//! # #[derive(Default)] struct Orders(AtomicU32);
//! # #[derive(Clone)] struct OrderServiceServer(Arc<Orders>);
//! # impl OrderServiceServer { fn new(orders: Orders) -> Self { Self(Arc::new(orders)) } }
//! # impl tower_service::Service<http::Request<Body>> for OrderServiceServer {
//! #     type Response = http::Response<Body>; type Error = std::convert::Infallible;
//! #     type Future = std::future::Ready<Result<http::Response<Body>, Self::Error>>;
//! #     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
//! #         std::task::Poll::Ready(Ok(()))
//! #     }
//! #     fn call(&mut self, _: http::Request<Body>) -> Self::Future {
//! #         let order_id = format!("order-{}", self.0.0.fetch_add(1, Ordering::SeqCst) + 1);
//! #         let message = CreateOrderResponse { order_id }.encode_to_vec();
//! #         let data = [&[0, 0, 0, 0, message.len() as u8][..], &message].concat();
//! #         let trailers = http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
//! #         let frames = [http_body::Frame::data(Bytes::from(data)), http_body::Frame::trailers(trailers)];
//! #         let frames = futures_util::stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
//! #         std::future::ready(Ok(http::Response::new(Body::new(StreamBody::new(frames)))))
//! #     }
//! # }
//! # fn descriptors() -> Vec<u8> {
//! #     use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto, MethodOptions};
//! #     let field = |name: &str| FieldDescriptorProto { name: Some(name.to_owned()), number: Some(1), label: Some(1), r#type: Some(9), ..Default::default() };
//! #     let message = |name: &str, field| DescriptorProto { name: Some(name.to_owned()), field: vec![field], ..Default::default() };
//! #     let method = MethodDescriptorProto {
//! #         name: Some("CreateOrder".to_owned()),
//! #         input_type: Some(".shop.v1.CreateOrderRequest".to_owned()),
//! #         output_type: Some(".shop.v1.CreateOrderResponse".to_owned()),
//! #         ..Default::default()
//! #     };
//! #     let service = ServiceDescriptorProto { name: Some("Orders".to_owned()), method: vec![method], ..Default::default() };
//! #     let file = FileDescriptorProto {
//! #         name: Some("shop.proto".to_owned()),
//! #         package: Some("shop.v1".to_owned()),
//! #         message_type: vec![message("CreateOrderRequest", field("item")), message("CreateOrderResponse", field("order_id"))],
//! #         service: vec![service],
//! #         syntax: Some("proto3".to_owned()),
//! #         ..Default::default()
//! #     };
//! #     FileDescriptorSet { file: vec![file] }.encode_to_vec()
//! # }
//! # use tonic_idempotency::{IdempotencyLayer, policy::Procedure, store::MemoryStore};
//! use tonic_idempotency::{rejection::Reason, testing::Harness};
//! use uuid::Uuid;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let descriptors = descriptors();
//! # let harness = Harness::with_layer(
//! #     MemoryStore::new(),
//! #     move |store| {
//! #         let procedure = Procedure::builder("/shop.v1.Orders/CreateOrder");
//! #         IdempotencyLayer::builder(descriptors.as_slice()).store(store).procedure(procedure).build()
//! #     },
//! #     OrderServiceServer::new(Orders::default()),
//! # );
//! # #[cfg(any())]
//! let harness = Harness::new(FILE_DESCRIPTOR_SET, OrderServiceServer::new(Orders::default()));
//! let mut orders = OrderServiceClient::new(harness.channel()); // the generated client
//! let (key, lamp) = (Uuid::new_v4(), CreateOrderRequest { item: "a lamp".to_owned() });
//!
//! let first = harness.call(key, lamp.clone(), |request| orders.create_order(request)).await.executed_once();
//! let retry = harness.call(key, lamp, |request| orders.create_order(request)).await.replayed();
//! assert_eq!(retry.into_message(), first.into_message());
//!
//! let chair = CreateOrderRequest { item: "a chair".to_owned() };
//! harness.call(key, chair, |request| orders.create_order(request)).await.refused_with(Reason::KeyReused);
//! assert_eq!(harness.runs(), 1);
//! # }
//! ```
//!
//! `docs/testing.md` in the repository has complete tests: without a database, and with one.

mod at_once;
mod called;
mod harness;
mod in_process;
mod link;
mod probe;
mod process;
mod record;
mod run;
mod server;
mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::{
    at_once::AtOnce, called::Called, harness::Harness, in_process::InProcess, record::Record, store::HarnessStore,
};

/// Ignores poisoning: a test that has panicked leaves nothing half changed.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
