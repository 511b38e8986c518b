//! A driver that counts the statements of the store: [`Counted`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Instant,
};

use simulation::database::resource_types;
use tonic_idempotency::store::driver::{
    AcquireError, Connection, ConnectionPool, Driver, DriverError, Exclusive, Statement, Value, statements,
};

/// The names of the statements by their texts.
static NAMES: LazyLock<HashMap<String, String>> =
    LazyLock::new(|| statements(resource_types()).into_iter().map(|(name, text)| (text, name)).collect());

/// The place of the keys among the parameters of a shared write, that of the keys of outcomes, and that of the keys of a look.
const CLAIMED_KEYS: usize = 1;
const DONE_KEYS: usize = 13;

/// The places of the response and of the retention, in a plain record and in `tenant.idempotency_commit`.
const RECORD: [usize; 2] = [7, 11];
const COMMIT: [usize; 2] = [9, 13];

/// Of this many commits of a response, one has its answer lost.
const LOST: u8 = 4;

/// How often each statement was sent, by its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Mutex<BTreeMap<String, u64>>>);

impl Counts {
    pub(super) fn add(&self, name: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(counts.insert(name.to_owned(), 1)),
        }
    }

    pub(super) fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, Statement { sql, parameters }: Statement<'_>) {
        let name = NAMES.get(sql).map_or("another", String::as_str);
        self.add(name);
        let keys = |place: usize| match parameters[place] {
            Value::Uuids(keys) => keys.len(),
            _ => panic!("{name} has other parameters"),
        };
        match name {
            "write_many" => {
                let (claims, outcomes) = (keys(CLAIMED_KEYS), keys(DONE_KEYS));
                if claims + outcomes > 1 {
                    self.add("write_many of several");
                }
                if claims > 0 && outcomes > 0 {
                    self.add("write_many of claims and outcomes");
                }
            }
            "look" if keys(CLAIMED_KEYS) > 1 => self.add("look of several"),
            _ => {}
        }
    }
}

/// The pool of another driver, whose statements are counted, and which loses the answers of some commits.
#[derive(Clone, Debug)]
pub(super) struct Counted<P> {
    pool: P,
    counts: Counts,
}

impl<P> Counted<P> {
    pub(super) fn new(pool: P, counts: &Counts) -> Self {
        Self { pool, counts: counts.clone() }
    }
}

impl<P: ConnectionPool> Driver for Counted<P> {
    type Session = Exclusive<Self>;
}

impl<P: ConnectionPool> ConnectionPool for Counted<P> {
    type Connection = CountedConnection<P::Connection>;

    async fn acquire(&self) -> Result<Self::Connection, AcquireError> {
        Ok(CountedConnection { connection: self.pool.acquire().await?, counts: self.counts.clone() })
    }

    fn max_connections(&self) -> usize {
        self.pool.max_connections()
    }

    fn has_idle(&self) -> bool {
        self.pool.has_idle()
    }

    fn is_exhausted(&self) -> bool {
        self.pool.is_exhausted()
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        self.counts.add("running");
        self.pool.ask_apart(begin, sql).await
    }

    fn distrust(&self, since: Instant) -> usize {
        self.pool.distrust(since)
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        self.pool.forget_if_stale(error)
    }
}

pub(super) struct CountedConnection<C> {
    connection: C,
    counts: Counts,
}

impl<C: Connection> Connection for CountedConnection<C> {
    type Row = C::Row;

    async fn execute(&mut self, sql: &str) -> Result<(), DriverError> {
        self.connection.execute(sql).await
    }

    async fn query(&mut self, statement: Statement<'_>) -> Result<Vec<C::Row>, DriverError> {
        self.counts.note(statement);
        self.connection.query(statement).await
    }

    async fn begin(
        &mut self,
        begin: &str,
        first: Statement<'_>,
        savepoint: Option<&str>,
    ) -> Result<Vec<C::Row>, DriverError> {
        self.counts.note(first);
        self.connection.begin(begin, first, savepoint).await
    }

    async fn commit(&mut self, roll_back: Option<&str>, record: Option<Statement<'_>>) -> Result<(), DriverError> {
        record.into_iter().for_each(|record| self.counts.note(record));
        let may_lose = record.is_some_and(keeps_response) && fastrand::u8(..LOST) == 0;
        self.connection.commit(roll_back, record).await?;
        if may_lose { Err(DriverError::lost("the answer to COMMIT is lost")) } else { Ok(()) }
    }

    async fn roll_back(&mut self) -> Result<(), DriverError> {
        self.connection.roll_back().await
    }

    async fn cancel(&self) {
        self.connection.cancel().await;
    }

    fn hand_out(&mut self) {
        self.connection.hand_out();
    }

    fn is_in_conflict(&mut self) -> bool {
        self.connection.is_in_conflict()
    }

    fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    fn close(self) {
        self.connection.close();
    }
}

/// Returns whether a record has a response, and stays: then a look-up finds it.
fn keeps_response(Statement { sql, parameters }: Statement<'_>) -> bool {
    let [response, retention] = if NAMES.get(sql).is_some_and(|name| name == "commit") { COMMIT } else { RECORD };
    matches!(parameters[response], Value::Bytes(Some(_)))
        && matches!(parameters[retention], Value::Double(Some(seconds)) if seconds > 0.0)
}
