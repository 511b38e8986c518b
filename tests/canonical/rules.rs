//! Rules that a random message seldom breaks alone.

use tonic_idempotency::canonical::{Canonical, CanonicalErrorKind};

use crate::schema;

fn node() -> Canonical {
    Canonical::new(&schema::message("vectors.v1.Node"))
}

#[test]
fn of_two_entries_with_one_key_next_to_each_other_the_last_wins() {
    // by_name: {"a": {}}, then {"a": {value: 1}}
    let twice = b"\x2a\x05\x0a\x01a\x12\x00\x2a\x07\x0a\x01a\x12\x02\x10\x01";
    let once = b"\x2a\x07\x0a\x01a\x12\x02\x10\x01";
    assert_eq!(node().encode(twice).expect("a message"), once.as_slice());
}

#[test]
fn a_member_of_a_oneof_that_another_replaced_has_to_be_valid() {
    // left: {label: "\xff"}, then right: {}
    let error = node().encode(b"\x32\x03\x0a\x01\xff\x3a\x00").expect_err("no UTF-8");
    assert_eq!(error.kind(), CanonicalErrorKind::InvalidUtf8);
}

#[test]
fn a_map_value_that_another_replaced_has_to_be_valid() {
    let error = node().encode(b"\x2a\x08\x0a\x01a\x12\x03\x0a\x01\xff\x2a\x05\x0a\x01a\x12\x00").expect_err("no UTF-8");
    assert_eq!(error.kind(), CanonicalErrorKind::InvalidUtf8);
}
