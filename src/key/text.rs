//! The text of a key.

use std::sync::Arc;

/// The length up to which a text needs no memory of its own. It is that of the longest form of a UUID, `urn:uuid:…`.
const SHORT: usize = 45;

/// The text of a key, cheap to clone.
#[derive(Clone)]
pub(super) enum Text {
    Long(Arc<str>),
    Short { len: u8, bytes: [u8; SHORT] },
}

impl Text {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Long(text) => text,
            Self::Short { len, bytes } => str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default(),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(short), Ok(len)) => {
                short.copy_from_slice(text.as_bytes());
                Self::Short { len, bytes }
            }
            _ => Self::Long(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_texts_of_any_length() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 255, 256, 1000] {
            let text = "k".repeat(len);
            assert_eq!(Text::from(&*text).as_str(), text);
        }
    }

    #[test]
    fn takes_no_memory_of_its_own_for_a_uuid_in_any_form() {
        let urn = "urn:uuid:8e03978e-40d5-43dd-bc93-6894a57f9324";
        assert!(matches!(Text::from(urn), Text::Short { .. }));
    }
}
