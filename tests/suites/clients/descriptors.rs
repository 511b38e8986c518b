//! The descriptors for clients without reflection.

use std::{
    fs,
    path::{Path, PathBuf},
};

use prost_reflect::DescriptorPool;
use uuid::Uuid;

/// A file with the descriptors of a service, usually the sample's, and of error details.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) pool: DescriptorPool,
    /// The path of the file, a `FileDescriptorSet`. Dropping this removes it.
    path: PathBuf,
}

impl Descriptors {
    pub(crate) fn write() -> Self {
        Self::of(organization::FILE_DESCRIPTOR_SET)
    }

    /// Writes the descriptors of this service.
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
