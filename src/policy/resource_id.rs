use std::{borrow::Cow, error, fmt};

use prost_reflect::{DynamicMessage, Value};
use uuid::Uuid;

use super::{Creates, Procedure};

impl Procedure {
    /// The id of the resource that was created, from the encoded response; `None` where the procedure creates none.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] where the response cannot be read, or its field holds no UUID.
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

/// A response that does not give what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseError {
    /// The field holds no UUID.
    NotAUuid,
    /// The response cannot be read.
    Unreadable,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAUuid => "the response's id field holds no UUID",
            Self::Unreadable => "the response cannot be read",
        })
    }
}

impl error::Error for ResponseError {}

/// The field that a dotted path names, with its default where it is not set.
fn find<'a>(message: &'a DynamicMessage, path: &str) -> Option<Cow<'a, Value>> {
    let Some((name, rest)) = path.split_once('.') else {
        return message.get_field_by_name(path);
    };
    match message.get_field_by_name(name)? {
        Cow::Borrowed(inner) => find(inner.as_message()?, rest),
        Cow::Owned(unset) => find(unset.as_message()?, rest).map(|field| Cow::Owned(field.into_owned())),
    }
}
