use bytes::Bytes;
use connectrpc::ConnectError;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};

use super::unique::Unique;

/// Messages as protobuf's JSON, by their descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json {
    pub(super) ignore_unknown_fields: bool,
}

impl Json {
    /// The binary encoding of a message in JSON. Nothing in it is left out or overwritten unsaid.
    pub(super) fn decode(self, message: &MessageDescriptor, json: &[u8]) -> Result<Bytes, ConnectError> {
        let invalid = |error: serde_json::Error| {
            ConnectError::invalid_argument(format!("the request is no {} in JSON: {error}", message.full_name()))
        };
        Unique::check(message, json).map_err(invalid)?;
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let options = DeserializeOptions::new().deny_unknown_fields(!self.ignore_unknown_fields);
        let decoded =
            DynamicMessage::deserialize_with_options(message.clone(), &mut deserializer, &options).map_err(invalid)?;
        deserializer.end().map_err(invalid)?;
        Ok(decoded.encode_to_vec().into())
    }

    /// A message in JSON.
    pub(super) fn encode(self, message: MessageDescriptor, binary: Bytes) -> Result<Bytes, ConnectError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            ConnectError::internal(format!("the response cannot be written as JSON: {error}"))
        };
        let decoded = DynamicMessage::decode(message, binary).map_err(|error| unreadable(&error))?;
        serde_json::to_vec(&decoded).map(Bytes::from).map_err(|error| unreadable(&error))
    }
}
