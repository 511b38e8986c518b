//! `cargo fuzz run json`: arbitrary bytes as protobuf's JSON.

#![no_main]
#![allow(missing_docs, reason = "cargo-fuzz generates the main function")]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tonic_idempotency_tests::fuzz::json(input));
