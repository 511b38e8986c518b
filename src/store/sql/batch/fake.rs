//! A kind, and a database, for the tests of lanes.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::Semaphore;
use uuid::Uuid;

use super::kind::{Kind, Until};
use crate::{
    caller::OwnerId,
    key::KeyId,
    store::{
        Reservation,
        sql::{
            driver::{AcquireError, AcquireErrorKind, Connection, ConnectionPool, DriverError, Row, Statement, Value},
            statements::Sql,
        },
    },
};

/// A kind whose answer is the number of calls in the statement.
pub(super) struct CountKind<const WRITES: bool = false>;

#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) reservation: Reservation,
    pub(super) group: u8,
    pub(super) bytes: usize,
}

impl Call {
    /// A call of one owner with this key.
    pub(super) fn new(key: u128) -> Self {
        let [owner, key] = [1, key].map(Uuid::from_u128);
        let reservation = Reservation::new(OwnerId::new(owner), KeyId::new(key));
        Self { reservation, group: 0, bytes: 1 }
    }
}

impl<const WRITES: bool> Kind for CountKind<WRITES> {
    const WRITES: bool = WRITES;

    type Item = Call;
    type Answer = usize;

    fn may_share(one: &Call, other: &Call) -> bool {
        one.group == other.group
    }

    fn reservation(call: &Call) -> &Reservation {
        &call.reservation
    }

    fn bytes(call: &Call) -> usize {
        call.bytes
    }

    async fn run<C: Connection>(
        connection: &mut C,
        _: &Sql,
        _: Until<'_>,
        calls: &[&Call],
    ) -> Result<Vec<Option<usize>>, DriverError> {
        let keys: Vec<_> = calls.iter().map(|call| *call.reservation.key.as_uuid()).collect();
        connection.query(Statement { sql: "", parameters: &[Value::Uuids(&keys)] }).await?;
        Ok(calls.iter().map(|_| Some(calls.len())).collect())
    }
}

/// The end of a statement.
#[derive(Clone, Copy)]
pub(super) enum End {
    Answer,
    Cut,
    Panic,
    Refusal,
}

/// A database whose statements wait until they may end.
#[derive(Clone)]
pub(in crate::store::sql) struct Fake(Arc<World>);

struct World {
    cancelled: AtomicUsize,
    closed: AtomicUsize,
    ends: Mutex<VecDeque<End>>,
    may_end: Semaphore,
    statements: Mutex<Vec<Vec<u128>>>,
    unreachable: AtomicBool,
}

impl Fake {
    pub(in crate::store::sql) fn new() -> Self {
        Self(Arc::new(World {
            cancelled: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            ends: Mutex::default(),
            may_end: Semaphore::new(0),
            statements: Mutex::default(),
            unreachable: AtomicBool::new(false),
        }))
    }

    /// Lets this many statements end.
    pub(super) fn end(&self, statements: usize) {
        self.0.may_end.add_permits(statements);
    }

    /// Lets one more statement end, and adds its end to the queue of ends.
    pub(super) fn end_with(&self, end: End) {
        self.0.ends.lock().unwrap_or_else(PoisonError::into_inner).push_back(end);
        self.end(1);
    }

    pub(super) fn refuse_connections(&self) {
        self.0.unreachable.store(true, Ordering::Relaxed);
    }

    /// The keys of the statements so far.
    pub(super) fn statements(&self) -> Vec<Vec<u128>> {
        self.0.statements.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        self.statements().iter().map(Vec::len).collect()
    }

    /// Returns the number of cancelled statements, and of closed connections.
    pub(super) fn cancelled_and_closed(&self) -> (usize, usize) {
        (self.0.cancelled.load(Ordering::Relaxed), self.0.closed.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").finish_non_exhaustive()
    }
}

impl ConnectionPool for Fake {
    type Connection = FakeConnection;

    async fn acquire(&self) -> Result<FakeConnection, AcquireError> {
        if self.0.unreachable.load(Ordering::Relaxed) {
            return Err(AcquireError::new(AcquireErrorKind::Unreachable, "no server"));
        }
        Ok(FakeConnection(Arc::clone(&self.0)))
    }

    fn max_connections(&self) -> usize {
        16
    }

    fn has_idle(&self) -> bool {
        true
    }

    fn is_exhausted(&self) -> bool {
        false
    }

    async fn ask_apart(&self, _: &str, _: &str) -> Result<String, DriverError> {
        Ok("0".to_owned())
    }
}

pub(in crate::store::sql) struct FakeConnection(Arc<World>);

impl Connection for FakeConnection {
    type Row = FakeRow;

    async fn execute(&mut self, _: &str) -> Result<(), DriverError> {
        Ok(())
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<FakeRow>, DriverError> {
        let [Value::Uuids(keys)] = statement.parameters else { panic!("no keys") };
        let keys = keys.iter().map(Uuid::as_u128).collect();
        self.0.statements.lock().unwrap_or_else(PoisonError::into_inner).push(keys);
        self.0.may_end.acquire().await.expect("it is not closed").forget();
        let end = self.0.ends.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match end.unwrap_or(End::Answer) {
            End::Answer => Ok(Vec::new()),
            End::Cut => Err(DriverError::lost("cut")),
            End::Panic => panic!("as the test wants"),
            End::Refusal => Err(DriverError::answered("23503", "no such resource", false, "refused")),
        }
    }

    async fn cancel(&self) {
        self.0.cancelled.fetch_add(1, Ordering::Relaxed);
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn close(self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }
}

pub(in crate::store::sql) struct FakeRow;

impl Row for FakeRow {
    fn value(&self, column: &str) -> Result<Value<'_>, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("no column {column}").into())
    }
}
