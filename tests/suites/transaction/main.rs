//! Transactional mode on a real PostgreSQL: a handler's writes and the record of its key are committed together.

mod atomicity;
mod beside;
mod bouncer;
mod connections;
mod copy;
mod duplicates;
mod handle;
mod harness;
mod isolation;
mod lost_answers;
mod owned;
mod prepared;
mod replay_cache;
mod resets;
mod savepoints;
mod session;
mod stack;
mod without_key;

mod every_driver {
    use crate::stack::PostgresStack;

    driver_suite::driver_tests!(PostgresStack, transactions);
}
