//! Messages in protobuf's JSON, by their descriptors.
//!
//! Reading is done here, not by prost-reflect, because the same message has to have the same hash from JSON and from binary:
//! what prost-reflect reads cannot say that a zero is negative, numbers of 32 bits are rounded twice, integers beyond their range
//! are cut, and of fields given twice one is dropped.

mod integer;
mod message;
mod scalar;
mod special;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use connectrpc::ConnectError;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::DeserializeSeed as _;

use self::message::Message;
use crate::canonical::Canonical;

/// Messages as JSON.
#[derive(Debug)]
pub(super) struct Json {
    ignore_unknown_fields: bool,
    /// Of the types that were found in an `Any`, by name.
    canonical: Mutex<HashMap<String, Arc<Canonical>>>,
}

impl Json {
    pub(super) fn new(ignore_unknown_fields: bool) -> Self {
        Self { ignore_unknown_fields, canonical: Mutex::default() }
    }

    /// The binary encoding of a message in JSON. Nothing in it is left out or overwritten unsaid.
    pub(super) fn decode(&self, message: &MessageDescriptor, json: &[u8]) -> Result<Bytes, ConnectError> {
        let invalid = |error: serde_json::Error| {
            ConnectError::invalid_argument(format!("the request is no {} in JSON: {error}", message.full_name()))
        };
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let binary = Message::new(message, self).deserialize(&mut deserializer).map_err(invalid)?;
        deserializer.end().map_err(invalid)?;
        Ok(binary.into())
    }

    /// A message in JSON.
    pub(super) fn encode(&self, message: MessageDescriptor, binary: Bytes) -> Result<Bytes, ConnectError> {
        let unreadable = |error: &dyn std::fmt::Display| {
            ConnectError::internal(format!("the response cannot be written as JSON: {error}"))
        };
        let decoded = DynamicMessage::decode(message, binary).map_err(|error| unreadable(&error))?;
        serde_json::to_vec(&decoded).map(Bytes::from).map_err(|error| unreadable(&error))
    }

    fn canonical(&self, message: &MessageDescriptor) -> Arc<Canonical> {
        let mut known = self.canonical.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(message.full_name().to_owned()).or_insert_with(|| Arc::new(Canonical::new(message))))
    }
}
