//! Connection strings.

use sqlx::postgres::PgConnectOptions;

/// Reads a URL such as `postgres://user:password@host/database`, as [`PgConnectOptions`] does. Its error says so if the text has
/// the form `host=… user=…`, which tokio-postgres and libpq read, and sqlx does not.
///
/// ```
/// let refused = tonic_idempotency_sqlx::options("host=localhost user=my_api").unwrap_err();
/// assert!(refused.to_string().contains("postgres://user@host/database"));
/// ```
///
/// # Errors
///
/// [`OptionsError`] if the text is not such a URL.
pub fn options(url: &str) -> Result<PgConnectOptions, OptionsError> {
    url.parse().map_err(
        |error| {
            if url.contains("://") { OptionsError::Url(error) } else { OptionsError::KeyValue(error) }
        },
    )
}

/// The error of [`options`].
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The text has the form `host=… user=…`.
    #[error("sqlx reads URLs such as postgres://user@host/database, not key=value pairs such as host=… user=…")]
    KeyValue(#[source] sqlx::Error),
    /// The URL is invalid.
    #[error("an invalid URL of a database")]
    Url(#[source] sqlx::Error),
}

tonic_idempotency::store::debug_tells!(OptionsError);
