//! Clocks, and the ages and lifetimes that they tell.

pub(crate) mod clock_reading;
pub(crate) mod expiry;
pub(crate) mod key_age;
pub(crate) mod wall_clock;
