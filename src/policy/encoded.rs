//! Messages that are encoded already: [`Encoded`].

use bytes::{Buf, BufMut, Bytes};
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType},
};

/// A message that is encoded already, for a [`Rebuilder`](super::Rebuilder) of a service whose messages are not prost's. (A
/// [`Reconciliation::Completed`](super::Reconciliation::Completed) takes bytes itself.)
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "nothing but the bytes")]
pub struct Encoded(pub Bytes);

/// Only encodes.
impl Message for Encoded {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        prost::encoding::skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
