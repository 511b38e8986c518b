//! Which types have a JSON form of their own.

use prost_reflect::MessageDescriptor;

/// The member of an `Any` that names its type.
pub(super) const TYPE: &str = "@type";

/// The member of an `Any` that holds the message, if its type is a well-known type.
pub(super) const VALUE: &str = "value";

/// The levels of depth that an `Any` counts for. It is more than one because an `Any` is read more than once at each
/// level.
pub(super) const ANY_DEPTH: u32 = 10;

/// `null` as a `Value`.
pub(super) const NULL: &[u8] = &[0x08, 0x00];

/// A well-known type with a JSON form of its own.
#[derive(Clone, Copy)]
pub(super) enum WellKnownType {
    Any,
    Duration,
    /// An object without fields.
    Empty,
    FieldMask,
    /// A list of any JSON.
    List,
    /// An object of any JSON.
    Struct,
    Timestamp,
    /// Any JSON.
    Value,
    /// The JSON form of its only field.
    Wrapper,
}

impl WellKnownType {
    pub(super) fn of(message: &MessageDescriptor) -> Option<Self> {
        match message.full_name().strip_prefix("google.protobuf.")? {
            "Any" => Some(Self::Any),
            "Duration" => Some(Self::Duration),
            "Empty" => Some(Self::Empty),
            "FieldMask" => Some(Self::FieldMask),
            "ListValue" => Some(Self::List),
            "Struct" => Some(Self::Struct),
            "Timestamp" => Some(Self::Timestamp),
            "Value" => Some(Self::Value),
            "BoolValue" | "BytesValue" | "DoubleValue" | "FloatValue" | "Int32Value" | "Int64Value" | "StringValue"
            | "UInt32Value" | "UInt64Value" => Some(Self::Wrapper),
            _ => None,
        }
    }

    /// Returns the binary encoding of `null` if it is a value of this type.
    pub(super) fn null(self) -> Option<&'static [u8]> {
        matches!(self, Self::Value).then_some(NULL)
    }
}
