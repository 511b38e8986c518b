//! The migrations of tonic-idempotency, run by other crates. The tests are in `tests`.
