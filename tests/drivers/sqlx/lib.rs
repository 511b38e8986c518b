//! Compiles the code of the documents. The tests are in `suite`.

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    mod first_page {}
    #[doc = include_str!("../../../crates/tonic-idempotency-sqlx/README.md")]
    mod readme {}
}
