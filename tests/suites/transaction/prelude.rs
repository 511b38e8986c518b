//! The names that most files of this suite use.

pub(crate) use std::{sync::Arc, time::Duration};

pub(crate) use driver_suite::patient;
pub(crate) use futures_util::FutureExt as _;
pub(crate) use tokio_postgres::{Client, types::Type};
pub(crate) use tonic::{Code, Status};
pub(crate) use tonic_idempotency::{
    Transaction,
    policy::ProcedureBuilder,
    rejection::Reason,
    store::{CallSession, PostgresStore, TransactionError, TransactionErrorKind},
};
pub(crate) use tonic_idempotency_tests::{Database, until};
pub(crate) use uuid::Uuid;

pub(crate) use crate::harness::{CREATE_PROJECT, Call, PostgresStack, Service, all_have_ended, reason, rows};
