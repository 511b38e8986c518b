//! The tokens of API keys.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tonic::Status;

/// A new token. Its creator sees it once; the database has its hash.
#[derive(Debug)]
pub(crate) struct ApiToken {
    pub(crate) hash: Vec<u8>,
    pub(crate) token: String,
}

impl ApiToken {
    /// Makes a token of 256 random bits. Its prefix helps to recognise a leaked token.
    pub(crate) fn new() -> Result<Self, Status> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| {
            tracing::error!(%error, "cannot generate random numbers");
            Status::internal("cannot generate random numbers")
        })?;
        let token = secret.iter().fold("org_".to_owned(), |mut token, byte| {
            // Writing to a String never fails.
            let _ = write!(token, "{byte:02x}");
            token
        });
        Ok(Self { hash: Sha256::digest(&token).to_vec(), token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_long_and_unique() {
        let (one, other) = (ApiToken::new().expect("a token"), ApiToken::new().expect("a token"));
        assert_eq!(one.token.len(), 4 + 64);
        assert_ne!(one.token, other.token);
        assert_ne!(one.hash, other.hash);
    }
}
