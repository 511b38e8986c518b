//! The proto option `(idempotency.v1.procedure)`, which opts a procedure in, and the service that tells what became of a call.
//!
//! The code and the descriptors of the protos are in `generated`; the test `generated` of the suites makes them again, and compares.
//!
//! Import `idempotency/v1/procedure.proto`. The build script of a crate that depends on `tonic-idempotency` finds the directory that it
//! is in by the environment variable `DEP_TONIC_IDEMPOTENCY_PROTO`, and one that depends on `tonic-idempotency-client` by
//! `DEP_TONIC_IDEMPOTENCY_CLIENT_PROTO`.

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
