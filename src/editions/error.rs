//! The reason why descriptors cannot be used.

use prost_reflect::DescriptorError;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum DescriptorsError {
    /// Descriptors that no compiler writes.
    #[error("{file}: {why}")]
    Broken { file: String, why: String },
    #[error("not an encoded google.protobuf.FileDescriptorSet")]
    Encoding(#[from] prost::DecodeError),
    /// An edition, or a feature of one, that cannot be lowered.
    #[error("{file}: {feature}: {why}")]
    Edition { file: String, feature: String, why: String },
    #[error(
        "{0}; if the set was written without its imports, write it with them: protoc --include_imports, \
         protox::Compiler::include_imports(true)"
    )]
    Inconsistent(#[from] DescriptorError),
}

impl DescriptorsError {
    pub(super) fn broken(file: &str, why: impl Into<String>) -> Self {
        Self::Broken { file: file.to_owned(), why: why.into() }
    }
}
