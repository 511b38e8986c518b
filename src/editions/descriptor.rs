//! The parts of `google/protobuf/descriptor.proto` that are read or changed here. All other parts stay encoded.
//!
//! `prost-types` does not know editions, and loses custom options. Source positions are left out.

use prost::bytes::Bytes;

use super::features::FeatureSet;

/// An encoded message, maybe in pieces: a message that is written in pieces is their concatenation.
pub(super) type Pieces = Vec<Bytes>;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileDescriptorSet {
    #[prost(message, repeated, tag = "1")]
    pub(super) file: Vec<File>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct File {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) package: Option<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub(super) message_type: Vec<Message>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(super) enum_type: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(super) service: Vec<Bytes>,
    #[prost(message, repeated, tag = "7")]
    pub(super) extension: Vec<Field>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(super) options: Pieces,
    #[prost(int32, repeated, packed = "false", tag = "10")]
    pub(super) public_dependency: Vec<i32>,
    #[prost(int32, repeated, packed = "false", tag = "11")]
    pub(super) weak_dependency: Vec<i32>,
    #[prost(string, optional, tag = "12")]
    pub(super) syntax: Option<String>,
    #[prost(int32, optional, tag = "14")]
    pub(super) edition: Option<i32>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) field: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    pub(super) nested_type: Vec<Message>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub(super) enum_type: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(super) extension_range: Vec<Bytes>,
    #[prost(message, repeated, tag = "6")]
    pub(super) extension: Vec<Field>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(super) options: Pieces,
    #[prost(message, repeated, tag = "8")]
    pub(super) oneof_decl: Vec<Oneof>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(super) reserved_range: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub(super) reserved_name: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Field {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) extendee: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(super) number: Option<i32>,
    #[prost(enumeration = "Label", optional, tag = "4")]
    pub(super) label: Option<i32>,
    #[prost(enumeration = "Type", optional, tag = "5")]
    pub(super) r#type: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(super) type_name: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(super) default_value: Option<String>,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    pub(super) options: Pieces,
    #[prost(int32, optional, tag = "9")]
    pub(super) oneof_index: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub(super) json_name: Option<String>,
    #[prost(bool, optional, tag = "17")]
    pub(super) proto3_optional: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Oneof {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) options: Pieces,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FileOptions {
    #[prost(message, optional, tag = "50")]
    pub(super) features: Option<FeatureSet>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MessageOptions {
    #[prost(bool, optional, tag = "7")]
    pub(super) map_entry: Option<bool>,
    #[prost(message, optional, tag = "12")]
    pub(super) features: Option<FeatureSet>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FieldOptions {
    #[prost(bool, optional, tag = "2")]
    pub(super) packed: Option<bool>,
    #[prost(message, optional, tag = "21")]
    pub(super) features: Option<FeatureSet>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OneofOptions {
    #[prost(message, optional, tag = "1")]
    pub(super) features: Option<FeatureSet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Label {
    Optional = 1,
    Required = 2,
    Repeated = 3,
}

/// The types of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Type {
    Double = 1,
    Float = 2,
    Int64 = 3,
    Uint64 = 4,
    Int32 = 5,
    Fixed64 = 6,
    Fixed32 = 7,
    Bool = 8,
    String = 9,
    Group = 10,
    Message = 11,
    Bytes = 12,
    Uint32 = 13,
    Enum = 14,
    Sfixed32 = 15,
    Sfixed64 = 16,
    Sint32 = 17,
    Sint64 = 18,
}

impl Message {
    pub(super) fn is_map_entry(&self) -> bool {
        read::<MessageOptions>(&self.options).is_ok_and(|options| options.map_entry())
    }
}

impl Field {
    /// Returns whether a list of this field's type can be packed.
    pub(super) fn is_packable(&self) -> bool {
        !matches!(self.r#type(), Type::Bytes | Type::Group | Type::Message | Type::String)
    }
}

/// Decodes options that may be in pieces.
pub(super) fn read<T: prost::Message + Default>(pieces: &Pieces) -> Result<T, prost::DecodeError> {
    let mut message = T::default();
    for piece in pieces {
        message.merge(piece.clone())?;
    }
    Ok(message)
}

/// Returns the full name of the element `name` in `scope`.
pub(super) fn full_name(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}
