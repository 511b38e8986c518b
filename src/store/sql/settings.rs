//! The settings of a store.

use std::time::Duration;

use super::{
    batch::Lanes,
    connections::{Connections, Permits},
    driver::Driver,
    store::{SqlStore, TransactionPool},
};
use crate::store::Schema;

impl<D: Driver> SqlStore<D> {
    /// Gives transactions a pool of their own, which nothing else of the store uses. Defaults to none: they share the
    /// store's pool, and leave a quarter of it to the rest, at least one connection. (A pool of one connection has one
    /// transaction, and then nothing is left.)
    ///
    /// In either case one user may have all transactions but one, which is for a user who has none; and while others wait, no more than half.
    /// A transaction that ends makes room for the waiting user who has the fewest. A user counts in each scope as a
    /// user of its own, and calls without a user count as one user. A call waits for its turn at most as long as the [`timeout`](Self::timeout), and then fails as
    /// overloaded, or at the limit of its user. A retry whose first call is recorded or still runs need not wait.
    ///
    /// The size of the pool counts that it has now. Clones of this store share the limits; another store on the same pool
    /// has its own.
    pub fn transaction_pool(mut self, pool: impl Into<D>) -> Self {
        let driver = pool.into().with_settings_of(self.connections.driver());
        self.permits = Permits::of_all(&driver);
        self.transaction_pool = Some(TransactionPool::new(driver));
        self
    }

    /// Sets the names of the schema and of the table of keys: those that the migrations were run with. Defaults to
    /// `tenant` and `idempotency_keys`.
    ///
    /// ```no_run
    /// use tonic_idempotency::{migrations, store::{PostgresStore, ResourceTypes, Schema}};
    ///
    /// # async fn make(
    /// #     mut owner: tokio_postgres::Client, pool: deadpool_postgres::Pool,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = Schema::new("billing")?;
    /// migrations::run(&mut owner, &schema).await?;
    /// migrations::grant(&owner, &schema, "my_api_role").await?;
    /// let store = PostgresStore::new(pool, ResourceTypes::none()).schema(schema);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schema(self, schema: Schema) -> Self {
        self.with_connections(|connections| connections.schema(schema))
    }

    /// Switches the plain statements for the common case on or off; without them, the functions of the migrations do everything. Only for
    /// tests.
    #[doc(hidden)]
    pub fn common_path(self, is_on: bool) -> Self {
        self.with_connections(|connections| connections.common_path(is_on))
    }

    /// Sets how long a claim waits for the status. Only for tests.
    #[doc(hidden)]
    pub fn status_timeout(self, timeout: Duration) -> Self {
        self.with_connections(|connections| connections.status_timeout(timeout))
    }

    /// Changes the driver's settings.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn with_driver(mut self, change: impl Fn(D) -> D) -> Self {
        self.transaction_pool = self.transaction_pool.map(|pool| TransactionPool::new(change(pool.driver)));
        self.with_connections(|connections| connections.with_driver(change))
    }

    /// Limits how long an operation may take, including the wait for a connection and further attempts. From 1 ms to 1
    /// hour; another timeout counts as the nearer of these. Defaults to 5 seconds.
    ///
    /// An attempt that has not answered after a quarter of it, at most 2 seconds, does not hold up the operation: a further
    /// attempt is made beside it, on another connection. A lost answer, and a connection that cannot be made, are tried again.
    /// If there is no answer in time, the error says whether the server could be asked:
    /// [`Overloaded`](crate::store::StoreErrorKind::Overloaded) if it could, if any other call was answered, or if the pool has no
    /// free connection; else [`Interrupted`](crate::store::StoreErrorKind::Interrupted) or
    /// [`Unreachable`](crate::store::StoreErrorKind::Unreachable).
    ///
    /// The outcome of a COMMIT that takes longer is looked up, for at most the same time again. The handler of a
    /// transactional procedure is not limited.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with_connections(|connections| connections.timeout(timeout))
    }

    /// Limits how many calls one statement carries: claims, records and replays that wait while a statement of their kind is under way
    /// share the next one; claims and records are of one kind. A call that finds none under way is sent alone, at once; or, while calls
    /// come together, with those that the runtime has ready at that moment. From 1 to 1,024 calls; another number counts as the nearer of
    /// these. 1 turns batching off: each call is a statement of its own. Defaults to 64.
    ///
    /// It changes neither the outcome of a call nor its time limits. Uncommon cases are sent alone, as is each call of a statement that has
    /// failed.
    pub fn max_batch(mut self, calls: usize) -> Self {
        self.lanes = Lanes::with_max_batch(&self.connections, calls);
        self
    }

    fn with_connections(mut self, change: impl FnOnce(Connections<D>) -> Connections<D>) -> Self {
        self.connections = change(self.connections);
        self.lanes = self.lanes.on(&self.connections);
        self
    }
}
