#![doc = include_str!("../README.md")]

/// The folder that `idempotency/v1/procedure.proto` and `idempotency/v1/operation.proto` are in, for the include paths of a compiler of
/// protos.
///
/// It is in the sources of this crate, which are there as long as cargo builds the crate that depends on it.
pub const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
