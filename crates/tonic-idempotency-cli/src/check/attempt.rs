//! One call: its key, its user, its protocol and its encoding.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use prost_reflect::SerializeOptions;
use tokio::time::sleep;

use super::{
    operation::Operation,
    report::repeat,
    request::Template,
    secrets::Header,
    server::Server,
    wire::{Answer, Connection, Protocol, Request, Stop},
};

/// The header with the key.
pub(super) const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How long a retry goes on, if it is refused.
const PATIENCE: Duration = Duration::from_secs(6);

/// The time between two attempts.
const BETWEEN: Duration = Duration::from_millis(400);

pub(super) struct Attempt<'a> {
    server: &'a Server,
    operation: &'a Operation,
    template: &'a Template,
    keys: Vec<String>,
    protocol: Protocol,
    /// The message, if it is not encoded as usual.
    message: Option<Bytes>,
    is_compressed: bool,
    is_slow: bool,
    is_of_second_user: bool,
    /// In milliseconds.
    deadline: Option<u128>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(server: &'a Server, operation: &'a Operation) -> Self {
        Self {
            server,
            operation,
            template: &server.template,
            keys: vec![operation.key.clone()],
            protocol: Protocol::Grpc,
            message: None,
            is_compressed: false,
            is_slow: false,
            is_of_second_user: false,
            deadline: None,
        }
    }

    /// Calls another method than the one that is checked.
    pub(super) fn of(self, template: &'a Template) -> Self {
        Self { template, ..self }
    }

    /// Sends these values of the key's header, in this order.
    pub(super) fn keys<const N: usize>(self, keys: [&str; N]) -> Self {
        Self { keys: keys.map(str::to_owned).to_vec(), ..self }
    }

    pub(super) fn over(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    pub(super) fn message(self, message: impl Into<Bytes>) -> Self {
        Self { message: Some(message.into()), ..self }
    }

    pub(super) fn compressed(self) -> Self {
        Self { is_compressed: true, ..self }
    }

    pub(super) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }

    pub(super) fn of_second_user(self) -> Self {
        Self { is_of_second_user: true, ..self }
    }

    pub(super) fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline.as_millis()), ..self }
    }

    /// Calls over the connection that calls share.
    pub(super) async fn send(self) -> Answer {
        match self.server.shared().await {
            Ok(connection) => self.send_on(&connection).await,
            Err(answer) => answer,
        }
    }

    pub(super) async fn send_on(self, connection: &Connection) -> Answer {
        connection.call(&self.request()).await
    }

    /// Begins the call over the connection that calls share, and resets it.
    pub(super) async fn reset(self, stop: Stop) -> Result<(), Answer> {
        let connection: Arc<Connection> = self.server.shared().await?;
        connection.reset(&self.request(), stop).await.map_err(|lost| Answer::from(Err(lost)))
    }

    /// Begins the call over a connection, and cuts that.
    pub(super) async fn cut(self, connection: Connection, stop: Stop) -> Result<(), Answer> {
        connection.cut(&self.request(), stop).await.map_err(|lost| Answer::from(Err(lost)))
    }

    fn request(&self) -> Request {
        self.server.add_call(repeat::grpcurl(self.server, self.template, self.operation, &self.keys, &self.user()));
        let mut headers = HeaderMap::new();
        for header in self.user() {
            headers.append(header.name.clone(), header.value.clone());
        }
        if let Some(slow) = self.server.slow.as_ref().filter(|_| self.is_slow) {
            headers.insert(slow.name.clone(), slow.value.clone());
        }
        for key in self.keys.iter().filter_map(|key| HeaderValue::from_str(key).ok()) {
            headers.append(KEY, key);
        }
        self.protocol.describe(&mut headers, self.is_compressed);
        if let Some(deadline) = self.deadline.and_then(|time| HeaderValue::from_str(&format!("{time}m")).ok()) {
            headers.insert(HeaderName::from_static("grpc-timeout"), deadline);
        }
        let body = self.protocol.body(&self.content(), self.is_compressed);
        Request { path: self.template.method.path.clone(), protocol: self.protocol, headers, body }
    }

    /// The headers of the user who calls.
    fn user(&self) -> Vec<&'a Header> {
        let second = self.server.second_headers.iter().filter(|_| self.is_of_second_user);
        let second: Vec<_> = second.collect();
        let is_replaced = |header: &&Header| second.iter().any(|other| other.name == header.name);
        self.server.headers.iter().filter(|header| !is_replaced(header)).chain(second.iter().copied()).collect()
    }

    fn content(&self) -> Bytes {
        match (&self.message, self.protocol) {
            (Some(message), _) => message.clone(),
            (None, Protocol::ConnectJson) => json(self.operation).into(),
            (None, _) => self.operation.encoded.clone(),
        }
    }
}

/// The JSON that a client of Connect sends.
fn json(operation: &Operation) -> Vec<u8> {
    let mut json = serde_json::Serializer::new(Vec::new());
    // A message that was read from JSON can be written as JSON.
    let _ = operation.message.serialize_with_options(&mut json, &SerializeOptions::new());
    json.into_inner()
}

impl Server {
    /// Begins to describe a call.
    pub(super) fn attempt<'a>(&'a self, operation: &'a Operation) -> Attempt<'a> {
        Attempt::new(self, operation)
    }

    /// Calls with the operation's key, over the connection that calls share.
    pub(super) async fn call(&self, operation: &Operation) -> Answer {
        self.attempt(operation).send().await
    }

    /// Calls until it succeeds. What a server refuses for a while, such as a key that is in use, it may take later.
    pub(super) async fn retry(&self, operation: &Operation) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.call(operation).await;
            if answer.message().is_some() || begun.elapsed() > PATIENCE {
                return answer;
            }
            sleep(BETWEEN).await;
        }
    }
}
