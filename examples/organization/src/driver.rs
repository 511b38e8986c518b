//! [`Driver`].

use std::{fmt, time::Duration};

use tonic::service::Routes;
use tonic_idempotency::{
    policy::Reconciler,
    store::{SqlStore, driver},
};

use crate::{run::Error, server::Guard};

/// The part of the sample that there is once for each client library of PostgreSQL: the pools, the store and the handlers.
pub trait Driver: fmt::Debug + Send + Sized + Sync + 'static {
    /// The store's driver.
    type Store: driver::Driver;

    /// Finds out what became of an `InviteMember` call whose process died.
    type InvitesReconciler: Reconciler;

    /// Makes the pools for this database. `commit_delay` is the minimum time that a create call waits before it commits.
    ///
    /// # Errors
    ///
    /// The URL is invalid.
    fn new(database: &ApiDatabase, commit_delay: Duration) -> Result<Self, Error>;

    /// The store of the idempotency layer.
    fn store(&self) -> SqlStore<Self::Store>;

    /// The reconciler of `InviteMember`.
    fn invites_reconciler(&self) -> Self::InvitesReconciler;

    /// The services, each behind the guard.
    fn services(&self, guard: &Guard) -> Routes;

    /// Closes the pools.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// The database of the API's own connections.
#[derive(Clone, Debug)]
pub struct ApiDatabase {
    /// The URL. The connections log in as a role of their own, with the password in it.
    pub url: String,
    /// Whether they may take the way of a pooler in transaction mode, such as PgBouncer.
    pub is_pooled: bool,
}
