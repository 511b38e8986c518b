//! The fault harness as it is run: that the promises hold, that it notices where they do not, and that nothing of it is
//! left.

mod ends;
mod harness;
mod promises;
