//! The execution mode of the sample.

use std::fmt;

use clap::ValueEnum;

use crate::named::name;

/// The mode in which the sample executes its procedures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Reserved,
    Transactional,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(*self))
    }
}
