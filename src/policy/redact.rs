//! Removes redacted fields from responses, and redacted parts from errors.

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};
use tonic::Status;
use tonic_types::pb;

use super::{Procedure, ResponseError};

/// In the list of types to redact: all types of details, and the error message.
pub(super) const ALL: &str = "*";

/// A detail of this type may hold any other.
const ANY: &str = "google.protobuf.Any";

impl Procedure {
    /// Returns the encoded response without its redacted fields, as it is stored.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Unreadable`] if the response cannot be decoded. [`ResponseError::UnknownFields`] if a message on the
    /// path of a redacted field has fields that the descriptors do not know: one of them may hold what is to be redacted.
    pub fn redacted(&self, response: Bytes) -> Result<Bytes, ResponseError> {
        let Some(method) = self.method.as_ref().filter(|_| !self.redact.is_empty()) else { return Ok(response) };
        let mut message = DynamicMessage::decode(method.output(), response).map_err(|_| ResponseError::Unreadable)?;
        for path in &self.redact {
            clear(&mut message, path)?;
        }
        Ok(message.encode_to_vec().into())
    }

    /// Returns a final error without its redacted parts, as it is stored. Its metadata is not part of it.
    pub(crate) fn redacted_error(&self, status: &Status) -> Status {
        let all = self.redact_errors.iter().any(|name| name == ALL);
        let (text, details) =
            if all { ("", Bytes::new()) } else { (status.message(), redacted_details(status, &self.redact_errors)) };
        Status::with_details(status.code(), text, details)
    }
}

fn clear(message: &mut DynamicMessage, path: &str) -> Result<(), ResponseError> {
    if message.unknown_fields().next().is_some() {
        return Err(ResponseError::UnknownFields);
    }
    let Some((name, rest)) = path.split_once('.') else {
        message.clear_field_by_name(path);
        return Ok(());
    };
    if !message.has_field_by_name(name) {
        return Ok(());
    }
    match message.get_field_by_name_mut(name) {
        Some(Value::Message(inner)) => clear(inner, rest),
        Some(Value::List(items)) => items.iter_mut().try_for_each(|item| clear_inside(item, rest)),
        Some(Value::Map(entries)) => entries.values_mut().try_for_each(|value| clear_inside(value, rest)),
        _ => Ok(()),
    }
}

fn clear_inside(value: &mut Value, path: &str) -> Result<(), ResponseError> {
    value.as_message_mut().map_or(Ok(()), |message| clear(message, path))
}

/// Returns the details of an error (`grpc-status-details-bin`) without the types to be redacted. Details that cannot be
/// decoded are dropped: it is not known what they hold.
fn redacted_details(status: &Status, types: &[String]) -> Bytes {
    if status.details().is_empty() || types.is_empty() {
        return Bytes::copy_from_slice(status.details());
    }
    let Ok(mut decoded) = pb::Status::decode(status.details()) else { return Bytes::new() };
    decoded.details.retain(|detail| {
        let name = detail.type_url.rsplit('/').next().unwrap_or_default();
        name != ANY && !types.iter().any(|redacted| redacted == name)
    });
    decoded.encode_to_vec().into()
}
