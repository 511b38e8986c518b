//! A call and its reply, in the form that all clients share.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One call that any client can make.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Call {
    /// For example `organization.v1.ProjectService/CreateProject`.
    pub(crate) procedure: String,
    /// The request, as JSON.
    pub(crate) message: Value,
    pub(crate) headers: Vec<(String, String)>,
    /// The time of the operation, for clients that repeat calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
}

/// The reply to a call, as a client saw it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Reply {
    /// The response message as JSON; `Null` for a failed call.
    #[serde(default)]
    pub(crate) body: Value,
    /// A `google.rpc.Code`; 0 for success.
    pub(crate) code: u64,
    pub(crate) details: Vec<Detail>,
    /// The headers of a successful call; for a failed call, the client's metadata of the error.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) message: String,
    /// The verdict on the operation, of a client that repeats calls: `ended`, `unknown`, or a word of `clients/verdicts.json`.
    #[serde(default)]
    pub(crate) verdict: String,
}

/// A detail of an error.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Detail {
    /// For example `google.rpc.ErrorInfo`.
    #[serde(rename = "type")]
    pub(crate) name: String,
    /// The message, as JSON.
    pub(crate) value: Value,
}

impl Call {
    /// A call of a procedure of `organization.v1`, without headers.
    pub(crate) fn new(procedure: &str, message: Value) -> Self {
        Self { procedure: format!("organization.v1.{procedure}"), message, headers: Vec::new(), timeout_ms: None }
    }

    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn within(mut self, milliseconds: u64) -> Self {
        self.timeout_ms = Some(milliseconds);
        self
    }

    pub(crate) fn key(self, key: impl ToString) -> Self {
        self.header("idempotency-key", key)
    }
}

impl Reply {
    /// The detail of an error, by its type name in `google.rpc`.
    pub(crate) fn detail(&self, name: &str) -> Option<&Value> {
        let found = self.details.iter().find(|detail| detail.name.strip_prefix("google.rpc.") == Some(name));
        found.map(|detail| &detail.value)
    }

    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header == name).map(|(_, value)| value.as_str());
        values.next().filter(|_| values.next().is_none())
    }

    /// Whether a header is present, once or more often.
    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| header == name)
    }
}
