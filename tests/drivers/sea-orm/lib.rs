//! Compiles the code of the documents. The tests are in `suite`.

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../crates/tonic-idempotency-sea-orm/README.md")]
    mod readme {}
}
