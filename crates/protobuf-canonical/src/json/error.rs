//! The error of reading and writing JSON.

use std::fmt;

use prost_reflect::MessageDescriptor;

/// The maximum length of an error's text, in bytes. The text quotes the input, which may have any length.
pub(super) const MAX_TEXT: usize = 1 << 10;

/// A message that cannot be read from JSON, or cannot be written as JSON.
#[derive(Debug)]
pub struct JsonError {
    text: String,
}

impl JsonError {
    pub(super) fn invalid(message: &MessageDescriptor, error: serde_json::Error) -> Self {
        let mut text = format!("invalid JSON for {}: {error}", message.full_name());
        let end = (0..=MAX_TEXT.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        Self { text }
    }

    pub(super) fn unreadable(error: prost::DecodeError) -> Self {
        Self { text: error.to_string() }
    }

    pub(super) fn unwritable(error: serde_json::Error) -> Self {
        Self { text: error.to_string() }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for JsonError {}
