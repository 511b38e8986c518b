//! The driver for sqlx on a real PostgreSQL: the tests of every driver, and its own.

mod conflicts;
mod connections;
mod errors;
mod handle;
mod hooks;
mod savepoints;
mod stack;

mod every_driver {
    use crate::stack::SqlxStack;

    driver_suite::driver_tests!(SqlxStack);
}
