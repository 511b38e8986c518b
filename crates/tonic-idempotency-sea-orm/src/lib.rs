//! [`tonic-idempotency`](tonic_idempotency) on [sea-orm](sea_orm): the records of idempotency keys through a
//! [`DatabaseConnection`](sea_orm::DatabaseConnection), and handlers that write with sea-orm in the transaction of their call.
//!
//! ```no_run
//! use sea_orm::Database;
//! use tonic_idempotency::{IdempotencyLayer, store::ResourceTypes};
//! use tonic_idempotency_sea_orm::{SeaOrm, SeaOrmStore};
//!
//! # async fn make(descriptors: &'static [u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::connect("postgres://my_api@localhost/my_app").await?;
//! let store = SeaOrmStore::new(SeaOrm::new(&database)?, ResourceTypes::none());
//! store.verify().await?;
//! let layer = IdempotencyLayer::builder(descriptors).store(store).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! The handler of a transactional procedure gets a [`Transaction`], in the place of its `DatabaseConnection`:
//!
//! ```
//! use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
//! use tonic::{Request, Response, Status};
//! use tonic_idempotency_sea_orm::{Transaction, TransactionError};
//!
//! # struct CreateOrderRequest { name: String }
//! # struct CreateOrderResponse { order_id: String }
//! async fn create_order(request: Request<CreateOrderRequest>) -> Result<Response<CreateOrderResponse>, Status> {
//!     let db = Transaction::from_request(&request)?;
//!     let order = insert(&db, request.into_inner().name).await.map_err(TransactionError::from)?;
//!     Ok(Response::new(CreateOrderResponse { order_id: order.to_string() })) // no COMMIT: the layer commits
//! }
//!
//! /// A repository, which knows nothing of calls. Entities work likewise: `order.insert(db)`.
//! async fn insert(db: &impl ConnectionTrait, name: String) -> Result<i64, DbErr> {
//!     let insert = "INSERT INTO orders (name) VALUES ($1) RETURNING id";
//!     let row = db.query_one_raw(Statement::from_sql_and_values(DbBackend::Postgres, insert, [name.into()])).await?;
//!     row.ok_or(DbErr::RecordNotInserted)?.try_get("", "id")
//! }
//! ```
//!
//! | | is |
//! |---|---|
//! | [`SeaOrmStore`] | the store |
//! | [`SeaOrm`], [`NotPostgres`] | the driver, made from a `DatabaseConnection` |
//! | [`Transaction`], [`TransactionError`] | the handler's side |
//! | [`Savepoint`] | a nested transaction |
//! | [`OwnedTransaction`] | a transaction without a call |
//!
//! # Functions of the application
//!
//! Functions that take `&impl ConnectionTrait` or `&impl TransactionTrait` accept a [`Transaction`] and a [`Savepoint`]. One that takes
//! `&DatabaseConnection` or `&DatabaseTransaction` by name must become generic: sea-orm cannot make those from a connection whose
//! transaction has begun.
//!
//! # What sea-orm does not see
//!
//! Statements go to sqlx directly. The metric callback of a `DatabaseConnection` and the spans of sea-orm's feature `tracing-spans` do not have
//! them, neither the store's nor the handler's; nor do sea-orm's RBAC rules (`restricted_for`) apply to them. The options of the
//! connections do: `sqlx_logging` and its levels, by which sqlx logs the text of statements without their values,
//! `set_schema_search_path`, `statement_timeout`, and the hooks of the pool (but see [`SeaOrm::run_before_acquire`]).
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `stream` | `StreamTrait` for [`Transaction`] and [`Savepoint`], as sea-orm's feature of this name, which is among its defaults |
//!
//! This crate uses sea-orm without its default features. Entities, types of columns and TLS are the application's: `cargo add sea-orm
//! --features runtime-tokio-rustls`, say. TLS is then a part of the URL: `?sslmode=verify-full`.
//!
//! # Round trips
//!
//! | | the store | the same handler without it, on `database.begin()` |
//! |---|---|---|
//! | begins | BEGIN, claim | ping, BEGIN |
//! | sets the isolation level | with BEGIN | 1, if it does |
//! | sets the user | with the claim | 1, if it does |
//! | ends | record, COMMIT | COMMIT |
//!
//! This is one round trip more than the bare handler's, and one more than that if errors of the procedure are final (a savepoint). A
//! nested transaction takes as many as in sea-orm. This driver is built on the one for sqlx: see there for more, such as
//! [the requirements of poolers](tonic_idempotency_sqlx#poolers); the handler's statements are not prepared there either.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod driver;
mod error;
mod pool;
mod session;
mod transaction;
mod transaction_error;

#[cfg(feature = "stream")]
pub use self::transaction::RowStream;
pub use self::{
    driver::SeaOrmStore,
    pool::{NotPostgres, SeaOrm},
    transaction::{OwnedTransaction, Savepoint, Transaction},
    transaction_error::TransactionError,
};
