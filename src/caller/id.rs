//! The ids of users and scopes: a UUID or a text.

use std::{borrow::Cow, sync::Arc};

use tonic::Status;
use uuid::{Uuid, fmt::Hyphenated};

/// The longest text, in bytes.
const LONGEST: usize = 255;

/// A UUID, or a text of 1 to 255 bytes that is not a UUID's usual form. Cloning allocates nothing.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Id {
    Text(Arc<str>),
    Uuid(Uuid),
}

impl Id {
    pub(super) fn from_text(text: &str) -> Result<Self, InvalidCallerId> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(InvalidCallerId { length: text.len() });
        }
        Ok(match usual_form(text) {
            Some(id) => Self::Uuid(id),
            None => Self::Text(text.into()),
        })
    }

    pub(super) fn as_uuid(&self) -> Option<&Uuid> {
        match self {
            Self::Text(_) => None,
            Self::Uuid(id) => Some(id),
        }
    }

    pub(super) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Uuid(id) => Cow::Owned(id.to_string()),
        }
    }
}

/// Returns the UUID whose usual form (RFC 9562, section 4) this is: lower case, with hyphens. Only that form, so that
/// two texts are never the same id.
fn usual_form(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    let mut buffer = [0; Hyphenated::LENGTH];
    (*id.as_hyphenated().encode_lower(&mut buffer) == *text).then_some(id)
}

/// A text that cannot be the id of a user or of a scope: it is empty, or longer than 255 bytes.
///
/// An interceptor that authenticates calls answers with it by `?`: it turns into `UNAUTHENTICATED`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a user or a scope has from 1 to 255 bytes, and this one has {length}")]
pub struct InvalidCallerId {
    length: usize,
}

impl From<InvalidCallerId> for Status {
    fn from(error: InvalidCallerId) -> Self {
        Status::unauthenticated(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn is_no_more_authenticated_than_without_an_id() {
        let authenticate = || -> Result<Id, Status> { Ok(Id::from_text("")?) };
        let refused = authenticate().err().expect("an empty id");
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("from 1 to 255 bytes"), "{refused:?}");
    }

    #[test]
    fn is_a_text_of_1_to_255_bytes() {
        for length in [1, 255] {
            assert_eq!(Id::from_text(&"x".repeat(length)).expect("an id").to_text().len(), length);
        }
        for length in [0, 256] {
            let text = "x".repeat(length);
            assert_eq!(Id::from_text(&text).err().map(|error| error.length), Some(length));
        }
        // Bytes, not characters.
        assert!(Id::from_text(&"ü".repeat(127)).is_ok());
        assert!(Id::from_text(&"ü".repeat(128)).is_err());
    }

    #[test]
    fn is_a_uuid_in_its_usual_form_and_in_no_other() {
        let usual = "0198c0de-0000-7000-8000-00000000000a";
        let id: Uuid = usual.parse().expect("a UUID");
        assert!(Id::from_text(usual) == Ok(Id::Uuid(id)));
        assert_eq!(Id::Uuid(id).to_text(), usual);
        for other in [
            "0198C0DE-0000-7000-8000-00000000000A",
            "0198c0de00007000800000000000000a",
            "{0198c0de-0000-7000-8000-00000000000a}",
            "urn:uuid:0198c0de-0000-7000-8000-00000000000a",
            " 0198c0de-0000-7000-8000-00000000000a",
        ] {
            let text = Id::from_text(other).expect("an id");
            assert_eq!(text.as_uuid(), None, "{other}");
            assert_eq!(text.to_text(), other);
        }
    }
}
