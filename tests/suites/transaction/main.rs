//! Transactional mode on a real PostgreSQL: a handler's writes and the record of its key are committed together. The tests of every
//! driver, on tokio-postgres, and its own.

mod beside;
mod copy;
mod handle;
mod harness;
mod isolation;
mod prelude;
mod prepared;
mod replay_cache;
mod resets;
mod savepoints;
mod stack;
mod times;
mod without_key;

mod every_driver {
    use crate::stack::PostgresStack;

    driver_suite::driver_tests!(PostgresStack, transactions);
}
