//! The error of building a layer: the idempotency layer, or the Connect layer.

use std::error::Error as StdError;

use thiserror::Error;

use crate::{
    editions::DescriptorsError,
    policy::{InvalidMetadataName, ProcedureError},
};

/// The reason why a layer cannot be built.
#[derive(Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The descriptors cannot be decoded, or are inconsistent.
    #[error("invalid descriptors")]
    Descriptors(#[source] Box<dyn StdError + Send + Sync>),
    /// A file is in an edition that is not supported, or has a feature that cannot be expressed.
    #[error("{file}: {feature}: {why}")]
    Edition {
        /// The name of the file.
        file: String,
        /// `edition`, or the feature as the file has it, such as `features.json_format`.
        feature: String,
        /// The reason, and what to do.
        why: String,
    },
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
    /// The store cannot limit the records of a caller.
    #[error(
        "limits: the store cannot limit the records of a caller, as only the one in PostgreSQL can; leave out Limits::records"
    )]
    NoRecordLimit,
    /// A procedure's configuration is invalid.
    #[error(transparent)]
    Procedure(#[from] ProcedureError),
    /// The secret of [`log_key_hashes_with`](crate::layer::IdempotencyLayerBuilder::log_key_hashes_with) is shorter than 16 bytes.
    #[error(
        "log_key_hashes_with: the secret is shorter than 16 bytes, so that keys could be guessed from their hashes"
    )]
    ShortSecret,
}

tonic_idempotency_wire::debug_tells!(BuildError);

impl From<DescriptorsError> for BuildError {
    fn from(error: DescriptorsError) -> Self {
        match error {
            DescriptorsError::Edition { file, feature, why } => Self::Edition { file, feature, why },
            error => Self::Descriptors(error.into()),
        }
    }
}

impl From<InvalidMetadataName> for BuildError {
    fn from(invalid: InvalidMetadataName) -> Self {
        match invalid {
            InvalidMetadataName::Malformed(name) => Self::MetadataName { name },
            InvalidMetadataName::NeverReplayed(name) => Self::MetadataNeverReplayed { name },
        }
    }
}
