//! `tonic-idempotency hash`: the hash of a key, as spans have it.

use std::{env, fs, io, path::PathBuf};

use clap::Args;
use tonic_idempotency::{IdempotencyKey, policy::KeyFormat, rejection::InvalidKey, telemetry::key_hash};

/// The environment variable that has the secret, if no file has.
const SECRET: &str = "IDEMPOTENCY_LOG_SECRET";

/// The length in bytes below which the layer refuses a secret.
const SHORTEST: usize = 16;

/// Prints the hash of a key, as the spans of the layer have it in their field `key`.
///
/// The secret is that of `log_key_hashes_with`. It is read from a file, or from the environment variable IDEMPOTENCY_LOG_SECRET.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The key, as the client sent it.
    key: String,
    /// A file with the secret. A line break at its end is not part of it.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

/// Returns the hash of the key.
pub(crate) fn hash(options: &Options) -> Result<String, HashError> {
    let key = IdempotencyKey::new(&options.key, KeyFormat::Any)?;
    let secret = match &options.secret_file {
        Some(path) => {
            let secret = fs::read(path).map_err(|cause| HashError::File { path: path.clone(), cause })?;
            let end = secret.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
            secret[..end].to_vec()
        }
        None => env::var_os(SECRET).ok_or(HashError::NoSecret)?.into_encoded_bytes(),
    };
    if secret.len() < SHORTEST {
        return Err(HashError::ShortSecret);
    }
    Ok(key_hash(&secret, key.id().as_uuid()))
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HashError {
    #[error("{}: {cause}", .path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Key(#[from] InvalidKey),
    #[error("no secret: give --secret-file, or set {SECRET}")]
    NoSecret,
    #[error("the secret has less than {SHORTEST} bytes: it cannot be the layer's")]
    ShortSecret,
}
