//! The expected replies, the same for every client.

use serde_json::Value;
use uuid::Uuid;

use crate::{call::Reply, protocol::Protocol};

pub(crate) const INVALID_ARGUMENT: u64 = 3;
pub(crate) const ABORTED: u64 = 10;

/// Expects the response to a first call, and returns the id of the project that it created.
pub(crate) fn first(reply: &Reply) -> Result<Uuid, String> {
    first_of(reply, "projectId")
}

/// Expects the response to a first call, and returns the id in this field of it.
pub(crate) fn first_of(reply: &Reply, field: &str) -> Result<Uuid, String> {
    let created = succeeded(reply, field)?;
    that(reply.header("idempotency-status") == Some("processing"), "idempotency-status: processing", reply)?;
    that(!reply.has_header("idempotent-replayed"), "no idempotent-replayed", reply)?;
    Ok(created)
}

/// Expects an answer in this protocol, if the client shows it: some do not expose the `content-type`.
pub(crate) fn protocol(reply: &Reply, protocol: Protocol) -> Result<(), String> {
    let same = |value: &str| value.split('+').next() == Some(protocol.content_type());
    that(reply.header("content-type").is_none_or(same), protocol.content_type(), reply)
}

/// Expects a replay of this response, which created a project, and returns its status.
pub(crate) fn replay<'a>(reply: &'a Reply, of: &Value) -> Result<&'a str, String> {
    succeeded(reply, "projectId")?;
    replay_of(reply, of)
}

/// Expects a replay of this response, and returns its status.
pub(crate) fn replay_of<'a>(reply: &'a Reply, of: &Value) -> Result<&'a str, String> {
    that(reply.code == 0, "a response", reply)?;
    that(reply.body == *of, &format!("the first response {of}"), reply)?;
    that(reply.header("idempotent-replayed") == Some("true"), "idempotent-replayed: true", reply)?;
    reply.header("idempotency-status").ok_or_else(|| format!("expected one idempotency-status: {reply:?}"))
}

/// Expects a rejection with this reason, and returns its `ErrorInfo`.
pub(crate) fn rejection<'a>(reply: &'a Reply, code: u64, reason: &str) -> Result<&'a Value, String> {
    that(reply.code == code, &format!("code {code}"), reply)?;
    that(!reply.message.is_empty(), "a message", reply)?;
    that(!reply.has_header("idempotency-status"), "no idempotency-status", reply)?;
    that(!reply.has_header("idempotent-replayed"), "no idempotent-replayed", reply)?;
    let info = reply.detail("ErrorInfo").ok_or_else(|| format!("expected an ErrorInfo: {reply:?}"))?;
    that(info["reason"] == reason, reason, reply)?;
    that(info["domain"] == "tonic-idempotency", "the domain tonic-idempotency", reply)?;
    Ok(info)
}

/// Expects a rejection of a key that was used for another request or procedure.
pub(crate) fn mismatch(reply: &Reply, mismatch: &str) -> Result<(), String> {
    let info = rejection(reply, INVALID_ARGUMENT, "IDEMPOTENCY_KEY_REUSED")?;
    that(info["metadata"]["mismatch"] == mismatch, &format!("mismatch: {mismatch}"), reply)
}

pub(crate) fn that(condition: bool, expected: &str, reply: &Reply) -> Result<(), String> {
    if condition { Ok(()) } else { Err(format!("expected {expected}: {reply:?}")) }
}

/// Expects a response, and returns the id in this field of it.
fn succeeded(reply: &Reply, field: &str) -> Result<Uuid, String> {
    let created = reply.body[field].as_str().and_then(|id| id.parse().ok());
    created.filter(|_| reply.code == 0).ok_or_else(|| format!("expected a {field}: {reply:?}"))
}
