//! The descriptors that a layer is built with.

use std::fmt;

use prost_reflect::DescriptorPool;

use crate::editions::{self, DescriptorsError};

/// The descriptors of the services, from an encoded `FileDescriptorSet`, from several, or from a
/// [`DescriptorPool`](prost_reflect::DescriptorPool).
///
/// The files of a set may be in proto2, proto3, or in edition 2023 or 2024. A pool is used as it is, and prost-reflect does not
/// know editions. Several sets may have files in common, if these are equal; a layer for all services of a server needs all of their sets.
pub struct Descriptors(Result<DescriptorPool, DescriptorsError>);

impl Descriptors {
    pub(crate) fn pool(self) -> Result<DescriptorPool, DescriptorsError> {
        self.0
    }
}

impl From<&[u8]> for Descriptors {
    fn from(encoded: &[u8]) -> Self {
        Self(editions::pool(encoded))
    }
}

impl<const N: usize> From<&[u8; N]> for Descriptors {
    fn from(encoded: &[u8; N]) -> Self {
        encoded.as_slice().into()
    }
}

impl From<&[&[u8]]> for Descriptors {
    fn from(encoded: &[&[u8]]) -> Self {
        encoded.concat().as_slice().into()
    }
}

impl<const N: usize> From<[&[u8]; N]> for Descriptors {
    fn from(encoded: [&[u8]; N]) -> Self {
        encoded.as_slice().into()
    }
}

impl From<DescriptorPool> for Descriptors {
    fn from(pool: DescriptorPool) -> Self {
        Self(Ok(pool))
    }
}

/// Prints only the names of the services: the `Debug` of a pool overflows the stack on recursive message types.
impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services =
            self.0.as_ref().map(|pool| pool.services().map(|it| it.full_name().to_owned()).collect::<Vec<_>>());
        f.debug_tuple("Descriptors").field(&services).finish()
    }
}
