//! The beginning of a transaction that holds its key.

use tokio::time::Instant;

use crate::store::{
    Claim, TransactionOptions,
    sql::{
        calls::claim::{Begin, in_time},
        connections::{AttemptConnection, Connections, Failure, Reset, clock},
        driver::{Connection, Driver, DriverError, Statement, Value},
        operation::{AttemptPlan, StoreOperation},
        statements::{RowOf, Sql, begin, column, only_row, settings},
    },
};

/// The savepoint before the handler's first statement. The engine rolls back to it before it records a final error.
const SAVEPOINT: &str = "SAVEPOINT idempotency_handler";

/// The most names and values of the application's settings that the plain statement sets.
const MAX_SETTINGS: usize = 4;

/// A transaction in which a key was claimed.
pub(super) struct BegunTransaction<'a, D: Driver> {
    pub(super) asked: AttemptConnection<'a, D>,
    /// `None`: the key had no record, and its lock is held. Else the row of `tenant.idempotency_begin`.
    pub(super) found: Option<(RowOf<D>, AttemptPlan)>,
}

impl<D: Driver> BegunTransaction<'_, D> {
    /// Returns whether another attempt of the same call may hold the key's lock: then its answer decides.
    pub(super) fn may_be_held_by_another_attempt(&self) -> bool {
        let Some((row, _)) = &self.found else { return false };
        column::<&str>(row, "state").is_ok_and(|state| state == "running")
    }
}

/// Begins a transaction as an attempt, and claims the key. A free key is taken in one round trip, if the driver can; for any other
/// key, `tenant.idempotency_begin` decides. If the key is looked at beside the transaction, that takes only the lock: what a serializable one reads of the
/// index, and others write, would be a conflict.
pub(super) async fn take<'a, D: Driver>(
    operation: &'a StoreOperation<'a, D>,
    claim: &Claim,
    options: TransactionOptions,
    attempt: AttemptPlan,
    looks_beside: bool,
) -> Result<BegunTransaction<'a, D>, Failure> {
    let connections = operation.connections();
    let mut asked = operation.connect(attempt, Reset::RollBack).await?;
    let until = match clock::shows_at(connections.clock(), operation.progress().deadline(), &mut *asked).await {
        Ok(until) => until,
        Err(error) => return Err(asked.failed(error).await),
    };
    let sql = connections.sql();
    let settings = settings(&claim.session);
    let any = || Begin::new(claim, options, attempt.status_of(claim), until);
    let sent = Instant::now();
    // Boxed, because it is uncommon: each call has a place for the largest of its steps.
    if !sql.has_common_path() || settings.is_some_and(|settings| settings.len() > MAX_SETTINGS) {
        return Box::pin(begin_any(connections, asked, any(), options, attempt)).await;
    }
    let parameters: &[Value<'_>] = &[
        (*claim.reservation.owner.as_uuid()).into(),
        (*claim.reservation.key.as_uuid()).into(),
        claim.reservation.token.into(),
        options.idle.as_secs_f64().into(),
        claim.session.user.into(),
        settings.into(),
        until.into(),
        looks_beside.into(),
    ];
    let (asked, row) = start(asked, options, Statement { sql: &sql.take, parameters }).await?;
    clock::read(connections.clock(), sent, &row, "begun");
    if column::<bool>(&row, "is_free").is_ok_and(|is_free| is_free) {
        return Ok(BegunTransaction { asked, found: None });
    }
    Box::pin(find(connections, asked, any(), options, attempt)).await
}

/// Begins a transaction, in one round trip with its first statement if the driver can. Returns the connection, and the row of that statement.
pub(super) async fn start<'a, D: Driver>(
    mut asked: AttemptConnection<'a, D>,
    options: TransactionOptions,
    first: Statement<'_>,
) -> Result<(AttemptConnection<'a, D>, RowOf<D>), Failure> {
    match asked.begin(begin(options.isolation), first, savepoint(options)).await.and_then(only_row) {
        Ok(row) => Ok((asked, row)),
        Err(error) => Err(asked.failed(error).await),
    }
}

/// Begins a transaction, and claims a key of which nothing is known.
async fn begin_any<'a, D: Driver>(
    connections: &'a Connections<D>,
    asked: AttemptConnection<'a, D>,
    any: Begin<'_>,
    options: TransactionOptions,
    attempt: AttemptPlan,
) -> Result<BegunTransaction<'a, D>, Failure> {
    let sent = Instant::now();
    let first = Statement { sql: &connections.sql().begin, parameters: &any.parameters() };
    let (asked, row) = start(asked, options, first).await?;
    clock::read(connections.clock(), sent, &row, "begun");
    in_time(&row)?;
    Ok(BegunTransaction { asked, found: Some((row, attempt)) })
}

/// Claims a key that is not free, in the transaction.
async fn find<'a, D: Driver>(
    connections: &'a Connections<D>,
    mut asked: AttemptConnection<'a, D>,
    any: Begin<'_>,
    options: TransactionOptions,
    attempt: AttemptPlan,
) -> Result<BegunTransaction<'a, D>, Failure> {
    match ask(&mut *asked, connections.sql(), any, options).await {
        Ok(row) => {
            in_time(&row)?;
            Ok(BegunTransaction { asked, found: Some((row, attempt)) })
        }
        Err(error) => Err(asked.failed(error).await),
    }
}

/// Asks for a key that is not free, in a transaction that may hold its lock.
pub(super) async fn ask<C: Connection>(
    connection: &mut C,
    sql: &Sql,
    any: Begin<'_>,
    options: TransactionOptions,
) -> Result<C::Row, DriverError> {
    let statement = Statement { sql: &sql.begin, parameters: &any.parameters() };
    let row = connection.query(statement).await.and_then(only_row)?;
    // A rollback to an earlier savepoint would end the settings and locks of the function.
    if let Some(savepoint) = savepoint(options) {
        connection.execute(savepoint).await?;
    }
    Ok(row)
}

fn savepoint(options: TransactionOptions) -> Option<&'static str> {
    options.savepoint.then_some(SAVEPOINT)
}
