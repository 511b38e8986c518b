use std::{error, fmt};

use prost_reflect::{DynamicMessage, Value};
use uuid::Uuid;

use super::{Creates, Procedure};

impl Procedure {
    /// The id of the resource that was created, from the encoded response; `None` where the procedure creates none.
    ///
    /// # Errors
    ///
    /// [`ResourceIdError`] where the response cannot be read, or its field holds no UUID.
    pub fn resource_id(&self, response: &[u8]) -> Result<Option<Uuid>, ResourceIdError> {
        let Some(Creates { id_field, .. }) = &self.creates else {
            return Ok(None);
        };
        let message = DynamicMessage::decode(self.method.output(), response).map_err(|_| ResourceIdError::Response)?;
        let mut value = Value::Message(message);
        for name in id_field.split('.') {
            let field = value.as_message().and_then(|message| message.get_field_by_name(name));
            value = field.ok_or(ResourceIdError::Response)?.into_owned();
        }
        let id = match &value {
            Value::String(text) => Uuid::try_parse(text).ok(),
            Value::Bytes(bytes) => Uuid::from_slice(bytes).ok(),
            _ => None,
        };
        id.map(Some).ok_or(ResourceIdError::NotAUuid)
    }
}

/// A response that does not give the id of the resource it created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceIdError {
    /// The field holds no UUID.
    NotAUuid,
    /// The response cannot be read.
    Response,
}

impl fmt::Display for ResourceIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAUuid => "the response's id field holds no UUID",
            Self::Response => "the response cannot be read",
        })
    }
}

impl error::Error for ResourceIdError {}
