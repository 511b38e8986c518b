//! The message of an operation, made of the user's JSON.

use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use uuid::Uuid;

use super::{schema::Method, secrets::Secrets};
use crate::failure::Failure;

/// Stands for the identity of an operation.
const UUID: &str = "{{uuid}}";

/// A method, and what is sent to it.
pub(super) struct Template {
    pub(super) method: Method,
    /// With the variables, as it may be printed.
    written: String,
    expanded: String,
}

impl Template {
    pub(super) fn new(method: Method, json: &str, secrets: &mut Secrets) -> Result<Self, Failure> {
        if !json.contains(UUID) {
            return Err(Failure::Input(format!(
                "the request has no {UUID}: it tells operations apart, so put it into a field, such as {{\"name\": \"check-{UUID}\"}}"
            )));
        }
        let template = Self { method, written: json.to_owned(), expanded: secrets.expand(json)? };
        template.message(Uuid::nil()).map_err(|error| {
            Failure::Input(format!("the request is no {}: {}", template.method.input.full_name(), secrets.hide(&error)))
        })?;
        Ok(template)
    }

    pub(super) fn message(&self, uuid: Uuid) -> Result<DynamicMessage, String> {
        message(&self.method.input, &self.expanded.replace(UUID, &uuid.to_string()))
    }

    /// The JSON of an operation as it may be printed.
    pub(super) fn written(&self, uuid: Uuid) -> String {
        self.written.replace(UUID, &uuid.to_string())
    }
}

fn message(descriptor: &MessageDescriptor, json: &str) -> Result<DynamicMessage, String> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let mut path = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut path);
    let message = DynamicMessage::deserialize_with_options(descriptor.clone(), tracked, &DeserializeOptions::new());
    let message = message.map_err(|error| format!("{}: {error}", path.path()))?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(message)
}
