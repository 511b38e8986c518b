//! [`tonic-idempotency`](tonic_idempotency) on [sqlx]: the records of idempotency keys through a [`PgPool`](sqlx::PgPool), and
//! handlers that write with sqlx in the transaction of their call.
//!
//! ```no_run
//! use sqlx::PgPool;
//! use tonic_idempotency::{IdempotencyLayer, store::ResourceTypes};
//! use tonic_idempotency_sqlx::SqlxStore;
//!
//! # async fn make(descriptors: &'static [u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PgPool::connect("postgres://my_api@localhost/my_app").await?;
//! let store = SqlxStore::new(pool, ResourceTypes::none());
//! store.verify().await?;
//! let layer = IdempotencyLayer::builder(descriptors).store(store).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! The handler of a transactional procedure gets a [`Transaction`], whose connection is a [`PgConnection`](sqlx::PgConnection):
//!
//! ```
//! use tonic::{Request, Response, Status};
//! use tonic_idempotency_sqlx::{Transaction, TransactionError};
//!
//! # struct CreateOrderRequest { name: String }
//! # struct CreateOrderResponse { order_id: String }
//! async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
//!     let mut connection = Transaction::from_request(&request)?.connection().await?; // instead of a pool
//!     let insert = sqlx::query_scalar("INSERT INTO orders (name) VALUES ($1) RETURNING id").bind(request.into_inner().name);
//!     let order: uuid::Uuid = insert.fetch_one(&mut *connection).await.map_err(TransactionError::from)?;
//!     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
//! }
//! ```
//!
//! | | is |
//! |---|---|
//! | [`SqlxStore`] | the store, made from a pool |
//! | [`Sqlx`] | the driver, with its settings |
//! | [`Transaction`], [`TransactionConnection`], [`TransactionError`] | the handler's side |
//! | [`OwnedTransaction`] | a transaction without a call |
//! | [`options`] | reads the URL of a database, and says so if it is not one |
//! | [`SqlxConnection`], [`SqlxRow`], [`driver_error`] | for the authors of drivers on top of this one |
//!
//! # Features of sqlx
//!
//! This crate uses sqlx without its default features. Macros, migrations and TLS are the application's: `cargo add sqlx --features
//! macros,migrate,tls-rustls-ring-webpki`, say. TLS is then a setting of the pool's options:
//! `options(url)?.ssl_mode(PgSslMode::VerifyFull)`, or `?sslmode=verify-full` in the URL.
//!
//! # Round trips
//!
//! | | the store | the same handler without it, on `pool.begin()` |
//! |---|---|---|
//! | begins | BEGIN, claim | ping, BEGIN |
//! | sets the user | with the claim | 1, if it does |
//! | ends | record, COMMIT | COMMIT |
//!
//! sqlx sends one statement at a time, so this is one round trip more than the bare handler's, and one more than that if errors of the
//! procedure are final (a savepoint). The store's statements are prepared once for each connection, which takes one more then. A
//! connection is not asked whether it lives before it is used ([`Sqlx::run_before_acquire`]); when it returns to its pool, it is asked
//! in the background.
//!
//! # Poolers
//!
//! Behind PgBouncer in transaction mode give the pool's options `.statement_cache_capacity(0)` (and `.extra_float_digits(None)`, a
//! parameter that PgBouncer refuses by default). The store then sends its own statements in a form that needs one server only: those
//! outside of a transaction with literals, so that responses of reserved procedures may be in the log of the server if it logs
//! statements. In the handler, prepare nothing that outlives the transaction: `sqlx::query(…).persistent(false)`. A PgBouncer from
//! version 1.21 on that tracks prepared statements (`max_prepared_statements`) needs neither.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod connection;
mod driver;
mod error;
mod literal;
mod options;
mod row;
mod statement;
mod transaction;
mod transaction_error;

pub use self::{
    connection::SqlxConnection,
    driver::{Sqlx, SqlxStore},
    error::driver_error,
    options::{OptionsError, options},
    row::SqlxRow,
    transaction::{OwnedTransaction, Transaction, TransactionConnection},
    transaction_error::TransactionError,
};
