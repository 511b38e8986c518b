//! Compiles the code of the crate's README and of `docs/redis.md`. The tests are in `suite`.

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../crates/tonic-idempotency-redis/README.md")]
    mod readme {}
    #[doc = include_str!("../../docs/redis.md")]
    mod page {}
}
