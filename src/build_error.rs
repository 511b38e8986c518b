//! The error of a layer that cannot be built, for this crate's own layer and for the one of Connect.

use std::{error, fmt};

use prost_reflect::DescriptorError;

use crate::policy::{InvalidMetadataName, ProcedureError};

/// A layer that cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The descriptors cannot be read.
    Descriptors(DescriptorError),
    /// A name in [`ReplayedMetadata`](crate::policy::ReplayedMetadata) is not a name of metadata.
    MetadataName {
        /// The name.
        name: String,
    },
    /// A name in [`ReplayedMetadata`](crate::policy::ReplayedMetadata) is one that is never replayed.
    MetadataNeverReplayed {
        /// The name.
        name: String,
    },
    /// No procedure is opted in.
    NoProcedures,
    /// A procedure's configuration is invalid.
    Procedure(ProcedureError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors(_) => f.write_str("the descriptors cannot be read"),
            Self::MetadataName { name } => write!(f, "replayed_metadata: {name:?} is not a valid metadata name"),
            Self::MetadataNeverReplayed { name } => write!(
                f,
                "replayed_metadata: {name:?} is never kept: it belongs to the connection, the protocol or the first caller \
                 alone; take it out of ReplayedMetadata::only"
            ),
            Self::NoProcedures => f.write_str(
                "no procedure is opted in: give one the option (idempotency.v1.procedure) or describe it in code; if \
                 there is one, the descriptor set has lost its options, as a round trip through prost-types does: write \
                 it with protoc, or with protox::Compiler::encode_file_descriptor_set",
            ),
            Self::Procedure(error) => error.fmt(f),
        }
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Descriptors(error) => Some(error),
            Self::MetadataName { .. }
            | Self::MetadataNeverReplayed { .. }
            | Self::NoProcedures
            | Self::Procedure(_) => None,
        }
    }
}

impl From<ProcedureError> for BuildError {
    fn from(error: ProcedureError) -> Self {
        Self::Procedure(error)
    }
}

impl From<DescriptorError> for BuildError {
    fn from(error: DescriptorError) -> Self {
        Self::Descriptors(error)
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
