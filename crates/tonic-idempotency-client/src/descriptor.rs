//! The parts of the descriptors that the layer reads: the procedures, their options, and the fields of their requests.
//!
//! These are the messages of `google/protobuf/descriptor.proto` with the fields that matter here, and our option, so that the options
//! are read without reflection.

use prost::Message;
use tonic_idempotency_wire::proto::v1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileDescriptorSet {
    #[prost(message, repeated, tag = "1")]
    pub(crate) file: Vec<FileDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileDescriptor {
    #[prost(string, tag = "2")]
    pub(crate) package: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) message_type: Vec<MessageDescriptor>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) service: Vec<ServiceDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MessageDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) field: Vec<FieldDescriptor>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) nested_type: Vec<MessageDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int32, tag = "3")]
    pub(crate) number: i32,
    #[prost(int32, tag = "4")]
    pub(crate) label: i32,
    #[prost(int32, tag = "5")]
    pub(crate) r#type: i32,
    #[prost(string, tag = "6")]
    pub(crate) type_name: String,
}

impl FieldDescriptor {
    pub(crate) const REPEATED: i32 = 3;
    pub(crate) const STRING: i32 = 9;
    pub(crate) const MESSAGE: i32 = 11;
    pub(crate) const BYTES: i32 = 12;
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServiceDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) method: Vec<MethodDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MethodDescriptor {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) input_type: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) options: Option<MethodOptions>,
    #[prost(bool, tag = "5")]
    pub(crate) client_streaming: bool,
    #[prost(bool, tag = "6")]
    pub(crate) server_streaming: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MethodOptions {
    #[prost(int32, tag = "34")]
    pub(crate) idempotency_level: i32,
    #[prost(message, optional, tag = "51915")]
    pub(crate) procedure: Option<v1::Procedure>,
}

impl MethodOptions {
    pub(crate) const NO_SIDE_EFFECTS: i32 = 1;
    pub(crate) const IDEMPOTENT: i32 = 2;
}

impl FileDescriptorSet {
    /// Returns the message with this full name, such as `.shop.v1.Order`.
    pub(crate) fn message(&self, full_name: &str) -> Option<&MessageDescriptor> {
        let full_name = full_name.trim_start_matches('.');
        self.file.iter().find_map(|file| {
            let rest = match file.package.as_str() {
                "" => full_name,
                package => full_name.strip_prefix(package)?.strip_prefix('.')?,
            };
            nested(&file.message_type, rest)
        })
    }
}

/// Returns the message with this name among these, or nested in them.
fn nested<'a>(messages: &'a [MessageDescriptor], name: &str) -> Option<&'a MessageDescriptor> {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let message = messages.iter().find(|message| message.name == first)?;
    match rest {
        Some(rest) => nested(&message.nested_type, rest),
        None => Some(message),
    }
}
