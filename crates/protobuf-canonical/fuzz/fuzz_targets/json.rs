#![no_main]
#![allow(missing_docs, reason = "cargo-fuzz makes the main function")]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tonic_idempotency_tests::fuzz::json(input));
