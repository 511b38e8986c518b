//! The error of migrations, registrations and grants.

/// The error of a failed migration, registration or grant. Its source is the database's error.
#[derive(thiserror::Error)]
#[error("the migrations of the idempotency store failed")]
pub struct MigrationError {
    #[from]
    source: tokio_postgres::Error,
}

tonic_idempotency_wire::debug_tells!(MigrationError);
