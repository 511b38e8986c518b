//! The driver for diesel-async on a real PostgreSQL: the tests of every driver, on both pools, and its own.

mod stack;

mod every_driver_on_deadpool {
    use crate::stack::DeadpoolStack;

    driver_suite::driver_tests!(DeadpoolStack);
}

mod every_driver_on_bb8 {
    use crate::stack::Bb8Stack;

    driver_suite::driver_tests!(Bb8Stack);
}
