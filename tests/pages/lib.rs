//! Compiles the code of the README. The tests are in `pages.rs`.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod first_page {}
