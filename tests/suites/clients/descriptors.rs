//! The descriptors for clients without reflection.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost_reflect::DescriptorPool;
use uuid::Uuid;

/// The descriptors of a service, usually the sample's, and of error details, in a file, for clients without reflection.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) pool: DescriptorPool,
    /// A `FileDescriptorSet`, removed when this is dropped.
    path: PathBuf,
}

impl Descriptors {
    pub(crate) fn write() -> Self {
        Self::of(organization::FILE_DESCRIPTOR_SET)
    }

    /// Those of another service.
    pub(crate) fn of(service: &[u8]) -> Self {
        let mut pool = DescriptorPool::new();
        for set in [service, tonic_types::pb::FILE_DESCRIPTOR_SET] {
            pool.decode_file_descriptor_set(set).expect("descriptors");
        }
        // `buf` recognises the format by the extension.
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.binpb", Uuid::new_v4()));
        fs::write(&path, pool.encode_to_vec()).expect("a file of descriptors");
        Self { pool, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
