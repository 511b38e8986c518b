//! The fuzz target of the canonical encoding.

use std::borrow::Cow;

use super::world;

/// Takes any bytes. Either they are not a message, or the canonical encoding of their canonical encoding is itself.
///
/// # Panics
///
/// The property does not hold.
pub fn canonical(input: &[u8]) {
    let canonical = world::canonical();
    let Ok(encoded) = canonical.encode(input) else { return };
    let again = canonical.encode(&encoded).expect("an encoding of its own");
    assert!(matches!(again, Cow::Borrowed(_)), "its own encoding is canonical to it");
    assert_eq!(canonical.hash(input), canonical.hash(&encoded));

    let ignoring = world::ignoring();
    let (Ok(rest), Ok(hashes)) = (ignoring.encode(input), ignoring.hashes(input)) else { return };
    assert_eq!(ignoring.hashes(&rest), Ok((*hashes.canonical()).into()), "nothing more is ignored");
}
