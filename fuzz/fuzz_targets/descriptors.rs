//! `cargo fuzz run descriptors`: descriptor sets, as a build may write them.

#![no_main]
#![allow(missing_docs, reason = "cargo-fuzz generates the main function")]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tonic_idempotency_tests::fuzz::descriptors(input));
