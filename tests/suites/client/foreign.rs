//! A server that is not ours: it records the calls, and gives the answers that a test has set.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use http::HeaderMap;
use tonic::{Response, async_trait, codec::CompressionEncoding, service::Routes, transport::Channel};
use tonic_idempotency_client::{IdempotencyClient, IdempotencyClientBuilder};
use tonic_idempotency_tests::shop::proto::{
    CreateOrderReply, CreateOrderRequest, PayReply, TouchReply,
    shop_server::{Shop, ShopServer},
};

use super::prelude::*;

pub(crate) const GET_ORDER: &str = "/shop.v1.Shop/GetOrder";
pub(crate) const CREATE_ORDER: &str = "/shop.v1.Shop/CreateOrder";

pub(crate) type Client = ShopClient<IdempotencyClient<Channel>>;

/// A server that is not ours. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Foreign {
    /// The next answers, in turn. When there are none left, it answers with success.
    answers: Arc<Mutex<VecDeque<Answer>>>,
    /// Whether its successes say nothing of their status.
    lacks_status: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(crate) enum Answer {
    /// This error.
    Error(Status),
    /// Success, with these headers.
    Headers(Vec<(&'static str, String)>),
    /// Nothing, for ever.
    Nothing,
}

/// A call as the server sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) message: CreateOrderRequest,
}

impl Seen {
    pub(crate) fn key(&self) -> Option<&str> {
        self.headers.get("idempotency-key").map(|key| key.to_str().expect("text"))
    }
}

impl Foreign {
    pub(crate) fn answers(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().expect("no panic").extend(answers);
    }

    /// Forgets the answers that are set.
    pub(crate) fn clear(&self) {
        self.answers.lock().expect("no panic").clear();
    }

    /// Answers the next call, before those that are set already.
    pub(crate) fn answers_first(&self, answer: Answer) {
        self.answers.lock().expect("no panic").push_front(answer);
    }

    pub(crate) fn fails(&self, errors: impl IntoIterator<Item = Status>) {
        self.answers(errors.into_iter().map(Answer::Error));
    }

    /// Lets its successes have no status, or one.
    pub(crate) fn lacks_status(&self, lacks: bool) {
        self.lacks_status.store(lacks, Ordering::Relaxed);
    }

    /// The calls since the last look.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().expect("no panic"))
    }

    /// The server. It accepts compressed requests.
    pub(crate) fn routes(&self) -> Routes {
        Routes::new(ShopServer::new(self.clone()).accept_compressed(CompressionEncoding::Gzip))
    }

    /// A client of this server with the layer.
    pub(crate) async fn client(
        &self,
        set: impl FnOnce(IdempotencyClientBuilder) -> IdempotencyClientBuilder,
    ) -> Client {
        Self::client_over(self.channel().await, set)
    }

    /// A client with the layer over this connection.
    pub(crate) fn client_over(
        channel: Channel,
        set: impl FnOnce(IdempotencyClientBuilder) -> IdempotencyClientBuilder,
    ) -> Client {
        let layer = set(IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET)).build().expect("the layer");
        ShopClient::new(layer.layer(channel))
    }

    /// A connection to this server.
    pub(crate) async fn channel(&self) -> Channel {
        shop::serve_in_memory(self.routes()).await
    }

    async fn answer<T: Default>(&self, request: Request<CreateOrderRequest>) -> Result<Response<T>, Status> {
        let (metadata, _, message) = request.into_parts();
        self.seen.lock().expect("no panic").push(Seen { headers: metadata.into_headers(), message });
        let answer = self.answers.lock().expect("no panic").pop_front();
        match answer {
            Some(Answer::Error(status)) => Err(status),
            Some(Answer::Headers(headers)) => {
                let mut response = Response::new(T::default());
                for (name, value) in headers {
                    response.metadata_mut().insert(name, value.parse().expect("metadata"));
                }
                Ok(response)
            }
            Some(Answer::Nothing) => std::future::pending().await,
            None => {
                let mut response = Response::new(T::default());
                if !self.lacks_status.load(Ordering::Relaxed) {
                    response.metadata_mut().insert("idempotency-status", "completed".parse().expect("metadata"));
                }
                Ok(response)
            }
        }
    }
}

#[async_trait]
impl Shop for Foreign {
    async fn create_order(&self, request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderReply>, Status> {
        self.answer(request).await
    }

    async fn pay(&self, request: Request<CreateOrderRequest>) -> Result<Response<PayReply>, Status> {
        self.answer(request).await
    }

    async fn touch(&self, request: Request<CreateOrderRequest>) -> Result<Response<TouchReply>, Status> {
        self.answer(request).await
    }

    async fn cancel(&self, request: Request<CreateOrderRequest>) -> Result<Response<TouchReply>, Status> {
        self.answer(request).await
    }

    async fn get_order(&self, request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderReply>, Status> {
        self.answer(request).await
    }

    type WatchOrdersStream = tokio_stream::Empty<Result<CreateOrderReply, Status>>;

    async fn watch_orders(
        &self,
        request: Request<CreateOrderRequest>,
    ) -> Result<Response<Self::WatchOrdersStream>, Status> {
        self.answer::<()>(request).await?;
        Ok(Response::new(tokio_stream::empty()))
    }
}

/// Whether a request asks whether its server protects a procedure. A server that is not ours does not know that.
pub(crate) fn is_question<B>(request: &http::Request<B>) -> bool {
    request.uri().path().ends_with("/DescribeProcedure")
}

/// A request for an order with this name.
pub(crate) fn order(name: &str) -> CreateOrderRequest {
    CreateOrderRequest { name: name.to_owned(), ..CreateOrderRequest::default() }
}
