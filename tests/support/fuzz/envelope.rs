//! The fuzz target of sealed bytes.

use tonic_idempotency_wire::seal::{Key, id_of, is_envelope, open, seal};

/// Opens the input, which is no envelope of this key; and seals it: then it opens, as it was, and not if it is changed where the input says.
///
/// # Panics
///
/// The property does not hold.
pub fn envelope(input: &[u8]) {
    let key = Key::new("fuzz", &[7; 32]).expect("a key");
    let context: [&[u8]; 2] = [b"owner", b"procedure"];
    assert!(open(&key, &context, input).is_err(), "no one has sealed it");
    assert!(id_of(input).is_none() || is_envelope(input));

    let mut sealed = seal(&key, &context, input);
    assert_eq!(id_of(&sealed), Some(&b"fuzz"[..]));
    assert_eq!(open(&key, &context, &sealed).as_deref(), Ok(input));
    let Some((&bit, rest)) = input.split_first() else { return };
    let at = rest.iter().fold(usize::from(bit), |at, &byte| at.wrapping_mul(257).wrapping_add(byte.into()));
    let length = sealed.len();
    sealed[at % length] ^= 1 << (bit % 8);
    assert!(open(&key, &context, &sealed).is_err(), "a changed envelope opens");
}
