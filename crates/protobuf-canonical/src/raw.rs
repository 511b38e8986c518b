//! Scalars as they arrived.

use super::{
    CanonicalError,
    reader::{Reader, WireType},
    schema::Scalar,
};

/// A scalar as it arrived.
#[derive(Clone, Copy)]
pub(super) enum Raw<'a> {
    Bytes(&'a [u8]),
    /// A normalized varint, a fixed32 or a fixed64.
    Number(u64),
}

impl<'a> Raw<'a> {
    pub(super) fn default(scalar: Scalar) -> Self {
        match scalar.wire() {
            WireType::Bytes => Self::Bytes(&[]),
            _ => Self::Number(0),
        }
    }

    pub(super) fn is_default(self) -> bool {
        match self {
            Self::Number(number) => number == 0,
            Self::Bytes(bytes) => bytes.is_empty(),
        }
    }

    /// Returns the number; 0 for bytes.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }
}

/// Reads a scalar that has been checked.
pub(super) fn read_scalar<'a>(reader: &mut Reader<'a>, scalar: Scalar) -> Result<Raw<'a>, CanonicalError> {
    Ok(match scalar.wire() {
        WireType::Varint => Raw::Number(scalar.normalize(reader.varint()?.value)),
        WireType::Fixed32 => Raw::Number(scalar.normalize(reader.fixed32()?.into())),
        WireType::Fixed64 => Raw::Number(reader.fixed64()?),
        _ => Raw::Bytes(reader.bytes()?.content),
    })
}
