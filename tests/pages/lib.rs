//! Compiles the code of the documents that show a driver or the client, and runs the README's example.
//! The tests are in `pages.rs` and `newcomer.rs`.

#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    mod first_page {}
    #[doc = include_str!("../../llms.txt")]
    mod for_machines {}
    #[doc = include_str!("../../docs/getting-started.md")]
    mod getting_started {}
    #[doc = include_str!("../../docs/client.md")]
    mod client {}
    #[doc = include_str!("../../crates/tonic-idempotency-client/README.md")]
    mod client_first_page {}
    #[doc = include_str!("../../docs/drivers.md")]
    mod drivers {}
}
