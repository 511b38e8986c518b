//! A call, as its handler sees it.

use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Extensions, HeaderMap};
use prost::Message;
use prost_types::Any;
use tonic_idempotency::Execution;

use crate::{
    proto::{
        Header,
        conformance_payload::{ConnectGetInfo, RequestInfo},
    },
    witness::Witness,
};

/// The parameters in the query of a GET. In the extensions of the request, because neither library shows it to
/// handlers.
#[derive(Clone, Debug)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

/// The request's head.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    headers: Vec<Header>,
    timeout: Option<Duration>,
    query: Option<Query>,
    pub(crate) witness: Witness,
}

impl Call {
    /// Reads a call. `timeout` is what the library knows of it; the layer knows it for a call with a key.
    pub(crate) fn new(headers: &HeaderMap, extensions: &Extensions, timeout: Option<Duration>) -> Self {
        let deadline = Execution::from_extensions(extensions).deadline();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        Self {
            headers: echo(headers),
            timeout: left.or(timeout),
            query: extensions.get().cloned(),
            witness: extensions.get().cloned().unwrap_or_default(),
        }
    }

    /// Returns everything about the call, with these requests.
    pub(crate) fn info(&self, requests: Vec<Any>) -> RequestInfo {
        let connect_get_info = self.query.as_ref().map(|Query(parameters)| ConnectGetInfo {
            query_params: parameters.iter().map(|(name, value)| header(name, vec![value.clone()])).collect(),
        });
        RequestInfo {
            request_headers: self.headers.clone(),
            timeout_ms: self.timeout.map(|timeout| timeout.as_millis().try_into().unwrap_or(i64::MAX)),
            requests,
            connect_get_info,
        }
    }
}

pub(crate) fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/connectrpc.conformance.v1.{name}"), value: message.encode_to_vec() }
}

/// Binary values are base64 on the wire, and in the suite's messages.
fn echo(headers: &HeaderMap) -> Vec<Header> {
    let value = |value: &http::HeaderValue| match value.to_str() {
        Ok(text) => text.to_owned(),
        Err(_) => STANDARD.encode(value.as_bytes()),
    };
    headers.keys().map(|name| header(name.as_str(), headers.get_all(name).iter().map(value).collect())).collect()
}

fn header(name: &str, value: Vec<String>) -> Header {
    Header { name: name.to_owned(), value }
}
