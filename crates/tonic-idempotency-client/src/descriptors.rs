//! The descriptors that a layer is built with.

use std::fmt;

/// The descriptors of the services, from an encoded `FileDescriptorSet`, or from several, which may have files in common: a layer for all
/// services of a server needs all of their sets.
#[derive(Clone)]
pub struct Descriptors {
    pub(crate) encoded: Vec<u8>,
}

impl From<&[u8]> for Descriptors {
    fn from(encoded: &[u8]) -> Self {
        Self { encoded: encoded.to_vec() }
    }
}

impl<const N: usize> From<&[u8; N]> for Descriptors {
    fn from(encoded: &[u8; N]) -> Self {
        encoded.as_slice().into()
    }
}

/// The concatenation of encoded sets is the set of all their files.
impl From<&[&[u8]]> for Descriptors {
    fn from(encoded: &[&[u8]]) -> Self {
        Self { encoded: encoded.concat() }
    }
}

impl<const N: usize> From<[&[u8]; N]> for Descriptors {
    fn from(encoded: [&[u8]; N]) -> Self {
        encoded.as_slice().into()
    }
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptors").field("bytes", &self.encoded.len()).finish()
    }
}
