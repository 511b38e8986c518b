//! Finds the key in a request message.

use prost_reflect::{FieldDescriptor, Kind, MethodDescriptor};
use protobuf_canonical::{CanonicalError, FieldPath};
use uuid::Uuid;

use super::{ProcedureError, field};
use crate::key::{IdempotencyKey, InvalidKey, KeyFormat};

/// `google.api.FieldInfo.Format.UUID4`
const UUID4: i32 = 1;

/// The field of the request message that has the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyField {
    path: String,
    field: FieldPath,
    /// Whether the field has the 16 bytes of a UUID. Otherwise it has the key's text.
    bytes: bool,
}

impl KeyField {
    pub(super) fn new(procedure: &str, method: &MethodDescriptor, path: &str) -> Result<Self, ProcedureError> {
        let fields = field::find(procedure, &method.input(), path)?;
        let kind = fields.last().map(FieldDescriptor::kind);
        match (FieldPath::new(&fields), &kind) {
            (Some(field), Some(Kind::Bytes | Kind::String)) => {
                Ok(Self { path: path.to_owned(), field, bytes: kind == Some(Kind::Bytes) })
            }
            _ => Err(ProcedureError::KeyFieldNotText { procedure: procedure.to_owned(), field: path.to_owned() }),
        }
    }

    /// Returns the name of a field that looks like one ([AIP-155](https://google.aip.dev/155)): a string whose
    /// `(google.api.field_info).format` is `UUID4`. It is not taken for one: the message of every call would be read.
    pub(super) fn of_aip_155(method: &MethodDescriptor) -> Option<String> {
        let info = method.parent_pool().get_extension_by_name("google.api.field_info")?;
        let is_uuid = |field: &FieldDescriptor| {
            let options = field.options();
            let format = options.get_extension(&info);
            let format = format.as_message()?.get_field_by_name("format")?.as_enum_number()?;
            Some(format == UUID4 && field.kind() == Kind::String && !field.is_list())
        };
        let field = method.input().fields().find(|field| is_uuid(field).unwrap_or_default())?;
        Some(field.name().to_owned())
    }

    /// Returns the dotted path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the key in an encoded request message; `None` if the field is empty or not set.
    pub(crate) fn key(&self, message: &[u8], format: KeyFormat) -> Result<Option<IdempotencyKey>, KeyFieldError> {
        let value = self.field.find(message).map_err(KeyFieldError::Message)?.unwrap_or_default();
        if value.is_empty() {
            return Ok(None);
        }
        let key = if self.bytes { of_bytes(value) } else { IdempotencyKey::from_bytes(value, format) };
        key.map(Some).map_err(KeyFieldError::Key)
    }
}

/// The reason why a message has no valid key.
#[derive(Debug)]
pub(crate) enum KeyFieldError {
    Key(InvalidKey),
    Message(CanonicalError),
}

fn of_bytes(value: &[u8]) -> Result<IdempotencyKey, InvalidKey> {
    Uuid::from_slice(value).map(IdempotencyKey::from).map_err(|_| InvalidKey::NotUuidBytes)
}
