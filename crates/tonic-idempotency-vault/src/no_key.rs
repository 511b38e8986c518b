//! The reasons for which Vault gives no key.

use std::{error::Error, sync::Arc};

use rustify::errors::ClientError as RestError;
use tonic_idempotency::seal::InvalidKey;
use vaultrs::error::ClientError;

/// Vault's status for a request that can never succeed.
const BAD_REQUEST: u16 = 400;

/// Parts of Vault's messages for a ciphertext that it can never open: its version is below `min_decryption_version`; or the key was deleted,
/// and made anew under its name, perhaps with fewer versions.
const DESTROYED: [&str; 3] = ["too old", "version is too new", "message authentication failed"];

/// Vault's message for a transit key that does not exist.
const MISSING: &str = "encryption key not found";

/// The reason for which Vault gave no key. Neither its text nor its `Debug` has a secret: what Vault answered is in neither unless it is an
/// error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoKey {
    /// It may later. All that is not known to be final.
    #[error("Vault gave no key: {0}")]
    Away(Arc<str>),
    /// It never will: it cannot open this ciphertext any more.
    #[error("Vault cannot open this key any more")]
    Destroyed,
    /// There is no transit key of this name.
    #[error("Vault has no transit key of this name")]
    Missing,
}

impl NoKey {
    pub(crate) fn away(why: impl Into<Arc<str>>) -> Self {
        Self::Away(why.into())
    }
}

impl From<ClientError> for NoKey {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::APIError { code, errors } => of_answer(*code, errors),
            ClientError::RestClientError { source: RestError::ServerResponseError { code, .. } } => {
                Self::away(format!("a status {code} came, which is not from Vault"))
            }
            // The causes may quote the answer, in which there may be a key.
            ClientError::RestClientError {
                source: RestError::ResponseConversionError { .. } | RestError::ResponseParseError { .. },
            } => Self::away("it sent something that is no answer of a transit engine"),
            error => Self::away(with_causes(error)),
        }
    }
}

impl From<InvalidKey> for NoKey {
    fn from(error: InvalidKey) -> Self {
        Self::away(error.to_string())
    }
}

fn of_answer(code: u16, errors: &[String]) -> NoKey {
    let says = |text: &str| code == BAD_REQUEST && errors.iter().any(|error| error.contains(text));
    if says(MISSING) {
        NoKey::Missing
    } else if DESTROYED.into_iter().any(says) {
        NoKey::Destroyed
    } else {
        NoKey::away(format!("it answered {code}: {}", errors.join("; ")))
    }
}

fn with_causes(error: &ClientError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, error: &str) -> NoKey {
        ClientError::APIError { code, errors: vec![error.to_owned()] }.into()
    }

    /// The messages of Vault and OpenBao.
    #[test]
    fn are_final_only_if_vault_says_so() {
        assert_eq!(of(400, "encryption key not found"), NoKey::Missing);
        for text in [
            "ciphertext or signature version is disallowed by policy (too old)",
            "invalid ciphertext: version is too new",
            "cipher: message authentication failed",
        ] {
            assert_eq!(of(400, text), NoKey::Destroyed, "{text}");
            for code in [403, 404, 412, 429, 500, 502, 503] {
                assert!(matches!(of(code, text), NoKey::Away(_)), "{code}: {text}");
            }
        }
        for (code, text) in [
            (400, "invalid ciphertext: no prefix"),
            (400, "encryption key is soft deleted"),
            (403, "permission denied"),
            (404, "no handler for route"),
            (429, "request path has been rate-limited"),
            (500, "encryption key not found"),
            (503, "Vault is sealed"),
        ] {
            assert_eq!(of(code, text), NoKey::away(format!("it answered {code}: {text}")));
        }
    }

    #[test]
    fn quote_nothing_that_is_no_error() {
        let content = r#"{"data": {"plaintext": "c2VjcmV0"}}"#.to_owned();
        for source in [
            RestError::ServerResponseError { code: 502, content: Some(content.clone()) },
            RestError::ResponseParseError { source: std::io::Error::other("c2VjcmV0").into(), content: Some(content) },
        ] {
            let reason = NoKey::from(ClientError::from(source));
            assert!(!format!("{reason} {reason:?}").contains("c2VjcmV0"), "{reason}");
        }
    }
}
