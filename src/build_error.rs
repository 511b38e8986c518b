//! The error of building a layer: the idempotency layer, or the Connect layer.

use prost_reflect::DescriptorError;
use thiserror::Error;

use crate::policy::{InvalidMetadataName, ProcedureError};

/// The reason why a layer cannot be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The descriptors cannot be decoded, or are inconsistent.
    #[error("invalid descriptors")]
    Descriptors(#[from] DescriptorError),
    /// A name in [`ReplayedMetadata`](crate::policy::ReplayedMetadata) is not a valid metadata name.
    #[error("replayed_metadata: {name:?} is not a valid metadata name")]
    MetadataName {
        /// The name.
        name: String,
    },
    /// A name in [`ReplayedMetadata`](crate::policy::ReplayedMetadata) is never replayed.
    #[error(
        "replayed_metadata: {name:?} is never replayed, because it belongs to the connection, the protocol or the \
         first caller; remove it from ReplayedMetadata::only"
    )]
    MetadataNeverReplayed {
        /// The name.
        name: String,
    },
    /// No procedure is opted in.
    #[error(
        "no procedure is opted in: set the option (idempotency.v1.procedure), or call \
         IdempotencyLayerBuilder::procedure; if the option is set, the descriptor set has lost it, as in a round trip \
         through prost-types: write the set with protoc, or with protox::Compiler::encode_file_descriptor_set"
    )]
    NoProcedures,
    /// A procedure's configuration is invalid.
    #[error(transparent)]
    Procedure(#[from] ProcedureError),
}

impl From<InvalidMetadataName> for BuildError {
    fn from(invalid: InvalidMetadataName) -> Self {
        match invalid {
            InvalidMetadataName::Malformed(name) => Self::MetadataName { name },
            InvalidMetadataName::NeverReplayed(name) => Self::MetadataNeverReplayed { name },
        }
    }
}
