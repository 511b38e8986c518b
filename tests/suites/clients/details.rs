//! Error details that a client returns undecoded.

use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::call::Detail;

/// Decodes the detail of type `name`, such as `google.rpc.ErrorInfo`.
pub(crate) fn decode(pool: &DescriptorPool, name: &str, encoded: &[u8]) -> Result<Detail, String> {
    let descriptor = pool.get_message_by_name(name).ok_or_else(|| format!("unknown detail type {name}"))?;
    let message = DynamicMessage::decode(descriptor, encoded).map_err(|error| format!("{name}: {error}"))?;
    let value = serde_json::to_value(&message).map_err(|error| format!("{name}: {error}"))?;
    Ok(Detail { name: name.to_owned(), value })
}
