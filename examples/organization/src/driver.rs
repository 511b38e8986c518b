//! The abstraction over the client libraries of PostgreSQL. The sample uses one; the fault harness runs the sample on
//! the others.

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

    /// The store of the idempotency layer. If the store has statements, at most `max_batch` calls share one.
    ///
    /// # Errors
    ///
    /// The store is not set up as it has to be.
    fn store(&self, max_batch: Option<u16>) -> impl Future<Output = Result<Self::Store, Error>> + Send;

    /// Adds the parts of the layer that the store does not provide: none, if the store is in the handlers' database.
    /// The command line's `overrides` are for procedures that an implementation adds.
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

/// Returns a store on PostgreSQL with this setting, and checks its database.
///
/// # Errors
///
/// The database is not set up as it has to be.
pub async fn set_up<D: driver::Driver>(store: SqlStore<D>, max_batch: Option<u16>) -> Result<SqlStore<D>, Error> {
    // Only for the fault harness: in half of its servers, the functions of the migrations do everything.
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
    /// The URL, with the role that the connections log in as, and its password.
    pub url: String,
    /// Whether the connections may go through a pooler in transaction mode, such as PgBouncer.
    pub is_pooled: bool,
}
