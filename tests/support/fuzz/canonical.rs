use std::borrow::Cow;

use super::world;

/// Any bytes: their canonical encoding is canonical to itself, or they are no message.
///
/// # Panics
///
/// What is promised does not hold.
pub fn canonical(input: &[u8]) {
    let canonical = world::canonical();
    let Ok(encoded) = canonical.encode(input) else { return };
    let again = canonical.encode(&encoded).expect("an encoding of its own");
    assert!(matches!(again, Cow::Borrowed(_)), "its own encoding is canonical to it");
    assert_eq!(canonical.hash(input), canonical.hash(&encoded));
}
