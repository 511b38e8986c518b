use std::{error, fmt};

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
        let mut value = Value::Message(message);
        for name in id_field.split('.') {
            let field = value.as_message().and_then(|message| message.get_field_by_name(name));
            value = field.ok_or(ResponseError::Unreadable)?.into_owned();
        }
        let id = match &value {
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
