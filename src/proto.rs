//! The option `(idempotency.v1.procedure)`, by which a `.proto` file opts a procedure in.
//!
//! The file to import, `idempotency/v1/procedure.proto`, is in the crate's `proto/`; a build script of a crate that depends
//! on this one finds that folder in the environment variable `DEP_TONIC_IDEMPOTENCY_PROTO`.

/// `idempotency/v1/procedure.proto` and what it imports, as a `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/idempotency.fds"));

/// Package `idempotency.v1`.
#[allow(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "generated; a message is its fields"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/idempotency.v1.rs"));
}
