//! The generated code of `proto/benchmarks/hash/v1/hash.proto`.

#![expect(unreachable_pub, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/benchmarks.hash.v1.rs"));

/// The encoded descriptors of `hash.proto`.
pub(crate) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hash.fds"));
