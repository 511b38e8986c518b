//! The driver for sea-orm, and the store on it.

use std::error::Error;

use tonic_idempotency::store::{SqlStore, driver::Driver};

use crate::{pool::SeaOrm, session::SeaOrmSession, transaction_error::is_conflict};

/// The store on sea-orm.
pub type SeaOrmStore = SqlStore<SeaOrm>;

impl Driver for SeaOrm {
    type Session = SeaOrmSession;

    fn is_conflict(error: &(dyn Error + 'static)) -> bool {
        is_conflict(error)
    }

    fn with_settings_of(self, other: &Self) -> Self {
        Self { sqlx: self.sqlx.with_settings_of(&other.sqlx) }
    }
}
