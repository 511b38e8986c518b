//! The abstraction over the client libraries of PostgreSQL. The sample has one; the fault harness runs it on the others.

use std::{fmt, time::Duration};

use tonic::service::Routes;
use tonic_idempotency::{
    layer::IdempotencyLayerBuilder,
    policy::Reconciler,
    store::{SqlStore, Store, driver},
};

use crate::{error::Error, guard::Guard, overrides::Overrides};

/// The parts of the sample that depend on the client library of PostgreSQL: the pools, the store and the handlers.
pub trait Driver: fmt::Debug + Send + Sized + Sync + 'static {
    /// The store of the idempotency layer.
    type Store: Store + Clone;

    /// Finds out what became of an `InviteMember` call whose process died.
    type InvitesReconciler: Reconciler;

    /// Makes the pools for this database. `commit_delay` is the minimum time that a create call waits before it commits.
    ///
    /// # Errors
    ///
    /// The URL is invalid.
    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error>;

    /// The store of the idempotency layer. At most `max_batch` calls share a statement, if it has statements.
    ///
    /// # Errors
    ///
    /// It is not set up as it has to be.
    fn store(&self, max_batch: Option<u16>) -> impl Future<Output = Result<Self::Store, Error>> + Send;

    /// Adds to the layer what it has not got from the store: nothing, for a store in the database of the handlers. `overrides` are the
    /// command line's, for procedures of its own.
    fn complete(&self, builder: IdempotencyLayerBuilder, _overrides: Overrides) -> IdempotencyLayerBuilder {
        builder
    }

    /// The reconciler of `InviteMember`.
    fn invites_reconciler(&self) -> Self::InvitesReconciler;

    /// The services, each behind the guard.
    fn services(&self, guard: &Guard) -> Routes;

    /// Closes the pools.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Returns a store on PostgreSQL with this setting, if its database is set up as it has to be.
///
/// # Errors
///
/// Its database is not.
pub async fn set_up<D: driver::Driver>(store: SqlStore<D>, max_batch: Option<u16>) -> Result<SqlStore<D>, Error> {
    // Only for the fault harness: half of its servers leave everything to the functions of the migrations.
    let store = store.common_path(std::env::var("IDEMPOTENCY_TEST_COMMON_PATH").as_deref() != Ok("off"));
    let store = match max_batch {
        Some(calls) => store.max_batch(calls.into()),
        None => store,
    };
    store.verify().await?;
    Ok(store)
}

/// The database of the API's own connections.
#[derive(Clone, Debug)]
pub struct ApiDatabase {
    /// The URL. The connections log in as a role of their own, with the password in it.
    pub url: String,
    /// Whether they may take the way of a pooler in transaction mode, such as PgBouncer.
    pub is_pooled: bool,
}
