//! Compiles the code of the documents that show several drivers.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/drivers.md")]
mod drivers {}
