//! A service whose handler runs a script in a transaction of tokio-postgres.

pub(crate) use crate::stack::PostgresStack;
pub(crate) use driver_suite::{CREATE_PROJECT, Service, all_have_ended, open_transactions, reason, rows};

/// A call as the script of a handler gets it.
pub(crate) type Call = driver_suite::Call<PostgresStack>;
