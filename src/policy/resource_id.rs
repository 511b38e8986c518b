//! Finds the id of the created resource in a response.

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use protobuf_canonical::FieldPath;
use thiserror::Error;
use uuid::Uuid;

use super::{ProcedureError, field};
use crate::status::{IdKind, ResourceId};

/// The field of the response message that has the id of the created resource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IdField {
    field: FieldPath,
    kind: Kind,
}

impl IdField {
    /// The field with this path in a message.
    pub(super) fn new(procedure: &str, message: &MessageDescriptor, path: &str) -> Result<Self, ProcedureError> {
        let fields = field::find(procedure, message, path)?;
        match (FieldPath::new(&fields), fields.last().map(FieldDescriptor::kind)) {
            (Some(field), Some(kind)) => Ok(Self { field, kind }),
            _ => Err(ProcedureError::IdFieldNotAnId { procedure: procedure.to_owned(), field: path.to_owned() }),
        }
    }

    /// The field with this name, which begins with the full name of its message.
    pub(super) fn named(operation: &str, pool: &DescriptorPool, name: &str) -> Result<Self, ProcedureError> {
        let mut splits = name.rmatch_indices('.').map(|(dot, _)| (&name[..dot], &name[dot + 1..]));
        match splits.find_map(|(message, path)| Some((pool.get_message_by_name(message)?, path))) {
            Some((message, path)) => Self::new(operation, &message, path),
            None => Err(ProcedureError::NoMessage { procedure: operation.to_owned(), field: name.to_owned() }),
        }
    }

    /// Returns whether it can hold ids of this kind.
    pub(super) fn can_hold(&self, kind: IdKind) -> bool {
        match self.kind {
            Kind::String => true,
            Kind::Bytes => kind == IdKind::Uuid,
            _ => kind != IdKind::Uuid,
        }
    }

    /// Returns the id in an encoded response message. The message may be large, and is not decoded.
    pub(super) fn id(&self, response: &[u8], wanted: Option<IdKind>) -> Result<ResourceId, ResponseError> {
        let id = match self.kind {
            Kind::Bytes => Uuid::from_slice(self.text(response)?).ok().map(Into::into),
            Kind::String => {
                let text = std::str::from_utf8(self.text(response)?).map_err(|_| ResponseError::Unreadable)?;
                of_text(text, wanted)
            }
            _ => of_integer(self.integer(response)?, wanted),
        };
        id.ok_or(ResponseError::NotAnId)
    }

    fn text<'a>(&self, response: &'a [u8]) -> Result<&'a [u8], ResponseError> {
        let found = self.field.find(response).map_err(|_| ResponseError::Unreadable)?;
        Ok(found.unwrap_or_default())
    }

    fn integer(&self, response: &[u8]) -> Result<i128, ResponseError> {
        let found = self.field.find_number(response).map_err(|_| ResponseError::Unreadable)?;
        let bits = found.unwrap_or_default();
        // Truncates a varint with more bits than its field has, as a decoder does.
        let low = bits as u32;
        Ok(match self.kind {
            Kind::Int32 | Kind::Sfixed32 => low.cast_signed().into(),
            Kind::Int64 | Kind::Sfixed64 => bits.cast_signed().into(),
            Kind::Sint32 => ((low >> 1).cast_signed() ^ -(low & 1).cast_signed()).into(),
            Kind::Sint64 => ((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed()).into(),
            Kind::Uint32 | Kind::Fixed32 => low.into(),
            _ => bits.into(),
        })
    }
}

fn of_text(text: &str, kind: Option<IdKind>) -> Option<ResourceId> {
    match kind {
        Some(IdKind::Integer) => text.parse::<i64>().ok().map(Into::into),
        Some(IdKind::Uuid) => Uuid::try_parse(text).ok().map(Into::into),
        Some(IdKind::Text) | None => ResourceId::from_text(text).ok(),
    }
}

/// Returns the id of this kind from an integer field; `None` for zero, which a field has that is not set.
fn of_integer(number: i128, kind: Option<IdKind>) -> Option<ResourceId> {
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
