//! The driver for sea-orm on a real PostgreSQL: the tests of every driver, and its own.

mod conflicts;
mod connection;
mod entities;
mod errors;
mod harness;
mod logs;
mod nested;
mod round_trips;
mod stack;
mod streams;

mod every_driver {
    use crate::stack::SeaOrmStack;

    driver_suite::driver_tests!(SeaOrmStack);
}
