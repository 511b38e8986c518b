//! The proto option `(idempotency.v1.procedure)`, which opts a procedure in, and the service that tells what became of a call.
//!
//! The code and the descriptors of the protos are in `generated`; the test `generated` of the suites makes them again, and compares.
//!
//! Import `idempotency/v1/procedure.proto`. `tonic_idempotency_build::PROTO` tells a build script the folder that it is in.

/// The descriptors of `idempotency/v1/procedure.proto`, `idempotency/v1/operation.proto` and their imports, as an encoded
/// `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/idempotency.fds");

/// The package `idempotency.v1`.
#[allow(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "generated: the fields of messages are public"
)]
pub mod v1 {
    include!("generated/idempotency.v1.rs");
}
