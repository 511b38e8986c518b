//! The proto option `(idempotency.v1.procedure)`, which opts a procedure in.
//!
//! Import `idempotency/v1/procedure.proto`, which is in the crate's `proto/` directory. The build script of a dependent
//! crate finds that directory in the environment variable `DEP_TONIC_IDEMPOTENCY_PROTO`.

/// The descriptors of `idempotency/v1/procedure.proto` and its imports, as an encoded
/// `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/idempotency.fds"));

/// The package `idempotency.v1`.
#[allow(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "generated: the fields of messages are public"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/idempotency.v1.rs"));
}
