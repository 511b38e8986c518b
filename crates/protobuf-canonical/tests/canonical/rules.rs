//! Rules that a random message seldom breaks alone.

use protobuf_canonical::{Canonical, CanonicalErrorKind};

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
    assert_no_utf8(b"\x32\x03\x0a\x01\xff\x3a\x00");
}

#[test]
fn a_map_value_that_another_replaced_has_to_be_valid() {
    assert_no_utf8(b"\x2a\x08\x0a\x01a\x12\x03\x0a\x01\xff\x2a\x05\x0a\x01a\x12\x00");
}

/// By itself, where the check finds it first; and after a default, which is not canonical, where the rewriter has to.
fn assert_no_utf8(wire: &[u8]) {
    let after_a_default = [b"\x10\x00", wire].concat();
    for wire in [wire, &after_a_default] {
        let error = node().encode(wire).expect_err("no UTF-8");
        assert_eq!(error.kind(), CanonicalErrorKind::InvalidUtf8, "{wire:x?}");
    }
}

#[test]
fn every_tag_of_a_list_is_minimal() {
    let repeated = Canonical::new(&schema::message("vectors.v1.Repeated"));
    // f_message (17): {}, then the same with its tag padded
    let padded = b"\x8a\x01\x00\x8a\x81\x00\x00";
    let minimal = b"\x8a\x01\x00\x8a\x01\x00";
    assert_eq!(repeated.encode(padded).expect("a message"), minimal.as_slice());
}
