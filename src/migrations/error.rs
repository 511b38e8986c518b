//! The error of migrations, registrations and grants.

/// The error of failed migrations, of a registration or of a grant. Its source is the database's error.
#[derive(thiserror::Error)]
#[error("the migrations of the idempotency store failed")]
pub struct MigrationError {
    #[from]
    source: tokio_postgres::Error,
}

tonic_idempotency_wire::debug_tells!(MigrationError);
