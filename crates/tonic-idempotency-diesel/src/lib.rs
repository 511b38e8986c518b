//! [`tonic-idempotency`](tonic_idempotency) on [diesel-async](diesel_async): the records of idempotency keys through your pool, and
//! handlers that write with diesel in the transaction of their call.
//!
//! ```no_run
//! # #[cfg(feature = "deadpool")]
//! # mod deadpool {
//! use diesel_async::pooled_connection::{AsyncDieselConnectionManager, deadpool::Pool};
//! use tonic_idempotency::{IdempotencyLayer, store::ResourceTypes};
//! use tonic_idempotency_diesel::DieselStore;
//!
//! # async fn make(descriptors: &'static [u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let manager = AsyncDieselConnectionManager::new("postgres://my_api@localhost/my_app");
//! let store = DieselStore::new(Pool::builder(manager).max_size(16).build()?, ResourceTypes::none());
//! store.verify().await?;
//! let layer = IdempotencyLayer::builder(descriptors).store(store).build()?;
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! The handler of a transactional procedure gets a [`Transaction`], whose connection is an
//! [`AsyncPgConnection`](diesel_async::AsyncPgConnection):
//!
//! ```
//! use diesel::prelude::*;
//! use diesel_async::RunQueryDsl;
//! use tonic::{Request, Response, Status};
//! use tonic_idempotency_diesel::{Transaction, TransactionError};
//!
//! diesel::table! {
//!     orders {
//!         id -> Uuid,
//!         name -> Text,
//!     }
//! }
//!
//! # struct CreateOrderRequest { name: String }
//! # struct CreateOrderResponse { order_id: String }
//! async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
//!     let mut connection = Transaction::from_request(&request)?.connection().await?; // instead of a pool
//!     let insert = diesel::insert_into(orders::table).values(orders::name.eq(request.into_inner().name)).returning(orders::id);
//!     let order: uuid::Uuid = insert.get_result(&mut connection).await.map_err(TransactionError::from)?;
//!     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
//! }
//! ```
//!
//! | | is |
//! |---|---|
//! | [`DieselStore`] | the store, made from a pool |
//! | [`Diesel`] | the driver |
//! | [`Transaction`], [`TransactionConnection`], [`TransactionError`] | the handler's side |
//! | [`OwnedTransaction`] | a transaction without a call |
//!
//! # Features
//!
//! | feature | the pool is one of |
//! |---|---|
//! | `deadpool` (default) | `diesel_async::pooled_connection::deadpool` |
//! | `bb8` | `diesel_async::pooled_connection::bb8` |
//!
//! # Errors
//!
//! diesel exposes the SQLSTATE of a few errors only. The store recognises the others by their messages, which have to be in English:
//! [`verify`](tonic_idempotency::store::SqlStore::verify) warns if the setting `lc_messages` of the server says otherwise. An error that
//! is not recognised, such as `RAISE EXCEPTION` in a trigger, never leads to a second run or to a wrong answer: the store
//! checks whether the statement was carried out. Only its kind is lost: a client may get `INTERNAL` where it should try again.
//!
//! # Round trips
//!
//! | | the store | the same handler without it |
//! |---|---|---|
//! | takes a connection | the pool's test | the pool's test |
//! | begins | BEGIN and claim | BEGIN |
//! | sets the user | with the claim | 1, if it does |
//! | ends | record, COMMIT | COMMIT |
//!
//! This is one more than the bare handler's, and one more than that if errors of the procedure are final (a savepoint). The store's
//! statements are prepared once for each connection, which takes one more then. Both pools test a connection with `SELECT 1` each time
//! that they hand it out. That round trip can be saved, because BEGIN or the claim finds out, and the store replaces a connection that
//! was lost: `ManagerConfig`'s `recycling_method = RecyclingMethod::Fast`.
//!
//! # bb8
//!
//! A pool of bb8 says only that it has no connection, not why: a login that is refused looks like a server that cannot be reached.
//!
//! # Poolers
//!
//! PgBouncer in transaction mode has to track prepared statements: version 1.21 or later, with `max_prepared_statements`. diesel-async
//! prepares each statement in a message of its own, even those that set a new connection up, and without tracking the statement
//! may be sent to another server than it was prepared on.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(not(any(feature = "bb8", feature = "deadpool")))]
compile_error!("tonic-idempotency-diesel needs a pool: enable the feature `deadpool` or `bb8`");

mod connection;
mod depth;
mod driver;
mod error;
mod pool;
mod row;
mod sqlstate;
mod statement;
mod transaction;
mod transaction_error;

pub use self::{
    connection::DieselConnection,
    driver::{Diesel, DieselStore},
    row::DieselRow,
    transaction::{OwnedTransaction, Transaction, TransactionConnection},
    transaction_error::TransactionError,
};
