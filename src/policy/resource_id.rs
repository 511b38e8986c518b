//! Finds the id of the created resource in a response.

use std::borrow::Cow;

use prost_reflect::{DynamicMessage, Value};
use thiserror::Error;
use uuid::Uuid;

use super::{Creates, Procedure};
use crate::status::{IdKind, ResourceId};

impl Procedure {
    /// Returns the id of the created resource from the encoded response; `None` if the procedure creates no
    /// resource.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] if the response cannot be decoded, or its id field does not hold an id of the resource type's kind.
    pub fn resource_id(&self, response: &[u8]) -> Result<Option<ResourceId>, ResponseError> {
        let Some(Creates { id_field, .. }) = &self.creates else {
            return Ok(None);
        };
        let message = DynamicMessage::decode(self.method.output(), response).map_err(|_| ResponseError::Unreadable)?;
        let value = find(&message, id_field).ok_or(ResponseError::Unreadable)?;
        id(&value, self.id_kind).map(Some).ok_or(ResponseError::NotAnId)
    }
}

/// Returns the id in a field; `None` if it is none of this kind. Zero is what an integer field has that is not set.
fn id(value: &Value, kind: Option<IdKind>) -> Option<ResourceId> {
    let number: i128 = match value {
        Value::Bytes(bytes) => return Uuid::from_slice(bytes).ok().map(Into::into),
        Value::String(text) => {
            return match kind {
                Some(IdKind::Integer) => text.parse::<i64>().ok().map(Into::into),
                Some(IdKind::Uuid) => Uuid::try_parse(text).ok().map(Into::into),
                Some(IdKind::Text) | None => ResourceId::from_text(text).ok(),
            };
        }
        Value::I32(number) => (*number).into(),
        Value::I64(number) => (*number).into(),
        Value::U32(number) => (*number).into(),
        Value::U64(number) => (*number).into(),
        _ => return None,
    };
    match (number, kind) {
        (0, _) | (_, Some(IdKind::Uuid)) => None,
        (number, Some(IdKind::Text)) => ResourceId::from_text(&number.to_string()).ok(),
        (number, Some(IdKind::Integer) | None) => i64::try_from(number).ok().map(Into::into),
    }
}

/// The reason why the id of the created resource, or the response to store, cannot be read from a response.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// The id field does not hold an id of the resource type's kind.
    #[error("the id field of the response does not hold an id of the resource type's kind")]
    NotAnId,
    /// A message on the path of a redacted field has fields that the descriptors do not know.
    #[error("the response has unknown fields beside a redacted one")]
    UnknownFields,
    /// The response cannot be decoded.
    #[error("the response cannot be decoded")]
    Unreadable,
}

/// Returns the value of the field at a dotted path, or its default if it is not set.
fn find<'a>(message: &'a DynamicMessage, path: &str) -> Option<Cow<'a, Value>> {
    let Some((name, rest)) = path.split_once('.') else {
        return message.get_field_by_name(path);
    };
    match message.get_field_by_name(name)? {
        Cow::Borrowed(inner) => find(inner.as_message()?, rest),
        Cow::Owned(unset) => find(unset.as_message()?, rest).map(|field| Cow::Owned(field.into_owned())),
    }
}
