//! The names that most files of this suite use.

pub(crate) use std::{
    collections::HashSet,
    error::Error as _,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub(crate) use deadpool_postgres::{Manager, Pool};
pub(crate) use futures_util::future::join_all;
pub(crate) use protobuf_canonical::RequestHash;
pub(crate) use scratch_postgres::{PgBouncer, Server, skip};
pub(crate) use tcp_proxy::{Cut, Moment};
pub(crate) use tokio::task::{JoinHandle, JoinSet};
pub(crate) use tokio_postgres::{
    Client, Config, Error, NoTls, Row,
    error::{DbError, SqlState},
    types::{FromSqlOwned, ToSql, Type},
};
pub(crate) use tonic_idempotency::{
    Caller, OwnerId, Scope, Transaction, UserId, migrations,
    policy::{Isolation, LeasePolicy, Limits},
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedQuery, BeginOutcome, CallSession, Claim, ClaimOutcome, CommitOutcome, CompleteOutcome,
        Completion, ExtendOutcome, KeyRecord, KeyState, LookUp, PostgresStore, PreparedStatements, ReleaseOutcome,
        Replay, Reservation, ResourceType, ResourceTypes, RollBackOutcome, Schema, SessionSettings, SetupProblem,
        Store, StoreError, StoreErrorKind, StoreSettings, StoreTransaction, StoredResponse, TransactionOptions,
        VerifyError,
        conformance::{Harness, conformance_tests},
        driver,
    },
};
pub(crate) use tonic_idempotency_tests::{
    API_LOGIN, API_ROLE, Database, OPERATOR, Proxy, migrate, partitions, pool, rows_read, until, uuid_of,
};
pub(crate) use uuid::Uuid;

pub(crate) use crate::record::{
    HASH, HOLD, HOUR, PROCEDURE, Parameters, abandon, acquire, again, any, assert_in_flight, assert_unknown, claim,
    commit, committed, complete, completed, completion, core_alone, count, drop_roles, ended, execute, extend,
    handle_of, hold_at, insert, insert_into, let_go, limited, look_up, new_claim, of_server, open_all,
    open_transaction, patient, plain_owner, problems, question, record, refusal, release, replay_of, replayed,
    roll_back, search, take_over, until_held, value, values, waiting,
};
