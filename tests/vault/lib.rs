//! Compiles the code of the crate's README. The tests are in `suite`.

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../crates/tonic-idempotency-vault/README.md")]
    mod readme {}
}
