use std::{error, fmt, time::Duration};

use super::InvalidFinalError;

/// A procedure that cannot be opted in as it is described.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcedureError {
    /// The id field is not a string or bytes field that holds one value.
    IdFieldNotUuid {
        /// The procedure's path.
        procedure: String,
        /// The field as it was named.
        field: String,
    },
    /// A duration is zero, negative, or too long.
    InvalidDuration {
        /// The procedure's path.
        procedure: String,
        /// The setting.
        setting: &'static str,
        /// The longest that it can be.
        most: Duration,
    },
    /// An error is to be final that cannot be.
    InvalidFinalError {
        /// The procedure's path.
        procedure: String,
        /// Which, and why.
        error: InvalidFinalError,
    },
    /// The option has a value that this version of the crate does not know.
    InvalidOption {
        /// The procedure's path.
        procedure: String,
        /// What is wrong with it.
        why: String,
    },
    /// The response message has no such field.
    MissingField {
        /// The procedure's path.
        procedure: String,
        /// The field as it was named.
        field: String,
        /// The message that lacks it: the response, or one on the way.
        message: String,
    },
    /// It is to be reconciled, and no reconciler was given to the layer.
    NoReconciler {
        /// The procedure's path.
        procedure: String,
    },
    /// It is to be rolled back when its client goes away, and is not transactional.
    NoRollBack {
        /// The procedure's path.
        procedure: String,
    },
    /// It is transactional, and the store has no transactions.
    NoTransactions {
        /// The procedure's path.
        procedure: String,
    },
    /// The procedure streams; only unary ones can be replayed.
    Streaming {
        /// The procedure's path.
        procedure: String,
    },
    /// The descriptors have no such procedure.
    Unknown {
        /// The procedure's path.
        procedure: String,
    },
    /// The store knows no such resource type.
    UnknownResourceType {
        /// The procedure's path.
        procedure: String,
        /// The type as it was named.
        resource_type: String,
        /// Those that the store knows.
        known: Vec<String>,
    },
}

impl fmt::Display for ProcedureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdFieldNotUuid { procedure, field } => write!(
                f,
                "{procedure}: the id field {field:?} cannot hold a UUID; it has to be a single string or bytes field"
            ),
            Self::InvalidDuration { procedure, setting, most } => {
                write!(f, "{procedure}: the {setting} has to be more than zero and at most {} s", most.as_secs())
            }
            Self::InvalidFinalError { procedure, error } => write!(f, "{procedure}: {error}; leave it out"),
            Self::InvalidOption { procedure, why } => {
                write!(f, "{procedure}: the option (idempotency.v1.procedure) is not understood: {why}")
            }
            Self::MissingField { procedure, field, message } => {
                write!(
                    f,
                    "{procedure}: the field {field:?} of the response cannot be found: {message} has no such field"
                )
            }
            Self::NoReconciler { procedure } => {
                write!(f, "{procedure}: give the layer a reconciler for it, or choose another policy on_lease_ended")
            }
            Self::NoRollBack { procedure } => write!(
                f,
                "{procedure}: only a transactional procedure can be rolled back when its client goes away; make it \
                 transactional, or let it finish"
            ),
            Self::NoTransactions { procedure } => write!(
                f,
                "{procedure}: it is transactional, and the store has no transactions; use PostgresStore, or mode reserved"
            ),
            Self::Streaming { procedure } => {
                write!(f, "{procedure}: a streaming procedure cannot take idempotency keys")
            }
            Self::Unknown { procedure } => write!(f, "{procedure}: no such procedure in the descriptors"),
            Self::UnknownResourceType { procedure, resource_type, known } => write!(
                f,
                "{procedure}: the store knows no resource type {resource_type:?}; it knows: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            ),
        }
    }
}

impl error::Error for ProcedureError {}
