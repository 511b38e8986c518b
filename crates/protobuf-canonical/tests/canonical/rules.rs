//! Rules that random messages seldom exercise in isolation.

use protobuf_canonical::{Canonical, CanonicalErrorKind};

use crate::schema;

fn node() -> Canonical {
    Canonical::new(&schema::message("vectors.v1.Node"))
}

#[test]
fn the_last_of_two_adjacent_map_entries_with_equal_keys_wins() {
    // by_name: {"a": {}}, then {"a": {value: 1}}
    let twice = b"\x2a\x05\x0a\x01a\x12\x00\x2a\x07\x0a\x01a\x12\x02\x10\x01";
    let once = b"\x2a\x07\x0a\x01a\x12\x02\x10\x01";
    assert_eq!(node().encode(twice).expect("a message"), once.as_slice());
}

#[test]
fn refuses_an_invalid_oneof_member_that_another_replaces() {
    // left: {label: "\xff"}, then right: {}
    assert_no_utf8(b"\x32\x03\x0a\x01\xff\x3a\x00");
}

#[test]
fn refuses_an_invalid_map_value_that_another_replaces() {
    assert_no_utf8(b"\x2a\x08\x0a\x01a\x12\x03\x0a\x01\xff\x2a\x05\x0a\x01a\x12\x00");
}

/// Tries `wire` by itself, so that the check finds the error, and after a default value, which is not canonical, so
/// that the rewriter has to find it.
fn assert_no_utf8(wire: &[u8]) {
    let after_a_default = [b"\x10\x00", wire].concat();
    for wire in [wire, &after_a_default] {
        let error = node().encode(wire).expect_err("no UTF-8");
        assert_eq!(error.kind(), CanonicalErrorKind::InvalidUtf8, "{wire:x?}");
    }
}

#[test]
fn shortens_a_padded_tag_in_the_middle_of_a_list() {
    let repeated = Canonical::new(&schema::message("vectors.v1.Repeated"));
    // f_message (17): {}, then the same with its tag padded
    let padded = b"\x8a\x01\x00\x8a\x81\x00\x00";
    let minimal = b"\x8a\x01\x00\x8a\x01\x00";
    assert_eq!(repeated.encode(padded).expect("a message"), minimal.as_slice());
}
