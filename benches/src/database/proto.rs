//! The generated code of `proto/benchmarks/database/v1/project.proto`.

#![allow(missing_docs, unreachable_pub, reason = "generated code")]

tonic::include_proto!("benchmarks.database.v1");

/// The encoded descriptors of `project.proto`, with its options.
pub(crate) const PROJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/project.fds"));
