//! Finds the id of the created resource in a response.

use std::borrow::Cow;

use prost_reflect::{DynamicMessage, Value};
use thiserror::Error;
use uuid::Uuid;

use super::{Creates, Procedure};

impl Procedure {
    /// Returns the id of the created resource from the encoded response; `None` if the procedure creates no
    /// resource.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] if the response cannot be decoded, or its id field does not hold a UUID.
    pub fn resource_id(&self, response: &[u8]) -> Result<Option<Uuid>, ResponseError> {
        let Some(Creates { id_field, .. }) = &self.creates else {
            return Ok(None);
        };
        let message = DynamicMessage::decode(self.method.output(), response).map_err(|_| ResponseError::Unreadable)?;
        let id = match &*find(&message, id_field).ok_or(ResponseError::Unreadable)? {
            Value::String(text) => Uuid::try_parse(text).ok(),
            Value::Bytes(bytes) => Uuid::from_slice(bytes).ok(),
            _ => None,
        };
        id.map(Some).ok_or(ResponseError::NotAUuid)
    }
}

/// The reason why the id of the created resource, or the response to store, cannot be read from a response.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// The id field does not hold a UUID.
    #[error("the id field of the response does not hold a UUID")]
    NotAUuid,
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
