//! The ways to hash a message.

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use protobuf_canonical::Canonical;
use sha2::{Digest as _, Sha256};

use super::{dynamic, proto::FILE_DESCRIPTOR_SET};
use crate::Error;

/// A way to hash a request message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// This library's hash.
    Canonical,
    /// SHA-256 of the bytes themselves, which differs between encodings.
    Plain,
    /// Decodes into a `DynamicMessage`, and encodes again with sorted maps.
    Dynamic,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Canonical, Self::Plain, Self::Dynamic];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Canonical => "`Canonical::hash`",
            Self::Plain => "plain SHA-256",
            Self::Dynamic => "`DynamicMessage`, sorted",
        }
    }
}

/// Hashes documents in every way.
#[derive(Debug)]
pub(crate) struct Hasher {
    canonical: Canonical,
    descriptor: MessageDescriptor,
}

impl Hasher {
    pub(crate) fn new() -> Result<Self, Error> {
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?;
        let descriptor = pool.get_message_by_name("benchmarks.hash.v1.Document").ok_or("no such message")?;
        Ok(Self { canonical: Canonical::new(&descriptor), descriptor })
    }

    pub(crate) fn hash(&self, way: Way, wire: &[u8]) -> Result<[u8; 32], Error> {
        Ok(match way {
            Way::Canonical => *self.canonical.hash(wire)?.as_bytes(),
            Way::Plain => Sha256::digest(wire).into(),
            Way::Dynamic => {
                let message = DynamicMessage::decode(self.descriptor.clone(), wire)?;
                let mut encoded = Vec::with_capacity(wire.len());
                dynamic::encode_sorted(&message, &mut encoded)?;
                Sha256::digest(encoded).into()
            }
        })
    }
}
