//! Other encodings of the same message, for tests of whatever compares messages.

mod choices;
mod defaults;
mod message;
mod order;
mod packing;
mod parser;
mod random;
mod replaced;
mod variations;
mod vary;
mod writer;

use prost_reflect::MessageDescriptor;

pub use self::variations::{Padding, Variations};
use self::{choices::Choices, parser::parse, vary::vary, writer::write};
use crate::{CanonicalError, ignore_mask::IgnoreMask, schema::Schema, valid};

/// Returns another encoding of an encoded message, the same for the same seed.
///
/// Each variation happens at random places, for a quarter of the seeds at one place only, and at one at least if the message has any. So with a
/// single variation, the result equals `message` only if the message does not allow it. All else stays as it is, such as the content of unknown
/// fields and their order among themselves.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use protobuf_canonical::{Canonical, reencode::{Variations, reencode}};
///
/// let duration = DescriptorPool::global().get_message_by_name("google.protobuf.Duration").unwrap();
/// let in_order = [0x08, 0x05, 0x10, 0x07]; // seconds before nanos
///
/// let mut order = Variations::default();
/// order.field_order = true;
/// assert_eq!(reencode(&in_order, &duration, order, 1).unwrap(), [0x10, 0x07, 0x08, 0x05]);
///
/// let odd = reencode(&in_order, &duration, Variations::all(), 1).unwrap();
/// assert_eq!(Canonical::new(&duration).encode(&odd).unwrap(), in_order.as_slice());
/// ```
///
/// # Errors
///
/// [`CanonicalError`] if `message` is not a valid encoding of a message of this type.
pub fn reencode(
    message: &[u8],
    descriptor: &MessageDescriptor,
    variations: Variations,
    seed: u64,
) -> Result<Vec<u8>, CanonicalError> {
    let schema = Schema::compile(descriptor, &IgnoreMask::default());
    valid::check(&schema, message)?;
    let mut choices = Choices::new(variations, seed);
    loop {
        let mut parsed = parse(&schema, message)?;
        vary(&schema, &mut parsed, &mut choices);
        let encoded = write(&parsed, &mut choices);
        if !choices.insist() {
            return Ok(encoded);
        }
    }
}
