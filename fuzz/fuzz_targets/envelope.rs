//! `cargo fuzz run envelope`: sealed bytes, as a writer of the table may change them.

#![no_main]
#![allow(missing_docs, reason = "cargo-fuzz generates the main function")]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tonic_idempotency_tests::fuzz::envelope(input));
