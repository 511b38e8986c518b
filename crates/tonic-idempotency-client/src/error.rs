//! The errors of building the layer.

use thiserror::Error;
use tonic_idempotency_wire::meant;

/// The layer cannot be built.
#[derive(Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The descriptors are not an encoded `google.protobuf.FileDescriptorSet`.
    #[error("the descriptors are not an encoded google.protobuf.FileDescriptorSet")]
    Descriptors(#[source] prost::DecodeError),
    /// No procedure takes a key. The usual cause is a descriptor set that has lost its options.
    #[error(
        "no procedure takes a key: neither has one the option (idempotency.v1.procedure) in these descriptors, nor is one named in \
         code; did the descriptors lose their options?"
    )]
    NoProcedures,
    /// The configuration of a procedure is invalid.
    #[error(transparent)]
    Procedure(#[from] ProcedureError),
}

tonic_idempotency_wire::debug_tells!(BuildError);

/// The configuration of a procedure is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcedureError {
    /// The request has no such field that can have the key: a string or bytes, neither repeated nor in a repeated field.
    #[error("{procedure}: the request has no field {path} of the type string or bytes for the key")]
    NoKeyField {
        /// The path of the procedure.
        procedure: String,
        /// The path of the field.
        path: String,
    },
    /// The procedure has a key field, and takes no key.
    #[error("{procedure} has a key field, but takes no key; opt it in with `procedure`")]
    NotOptedIn {
        /// The path of the procedure.
        procedure: String,
    },
    /// The procedure is streaming: only unary calls can be sent again.
    #[error("{procedure} is streaming; only unary procedures take keys")]
    Streaming {
        /// The path of the procedure.
        procedure: String,
    },
    /// The descriptors have no such procedure.
    #[error("{procedure} is not in the descriptors; {}", meant(.nearest))]
    Unknown {
        /// The path of the procedure.
        procedure: String,
        /// The paths that are most like it.
        nearest: Vec<String>,
    },
}
