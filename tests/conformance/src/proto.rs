//! The protos of the suite.

/// For tonic, and for the handlers of both servers.
#[allow(missing_docs, missing_debug_implementations, unreachable_pub, dead_code, clippy::all)]
mod prost {
    tonic::include_proto!("connectrpc.conformance.v1");
}

/// For `connectrpc`.
#[allow(missing_docs, missing_debug_implementations, unreachable_pub, dead_code, clippy::all)]
pub(crate) mod native {
    include!(concat!(env!("OUT_DIR"), "/native/conformance.rs"));
    pub(crate) use self::connectrpc::conformance::v1::*;
}

pub(crate) use prost::*;

/// The descriptors of the service.
pub(crate) const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/conformance.fds"));
