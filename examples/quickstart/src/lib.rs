//! The generated code of the quickstart's service.

/// The descriptors of the service, with its options.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orders.bin"));

/// Package `orders.v1`.
#[allow(missing_docs, reason = "generated")]
pub mod proto {
    tonic::include_proto!("orders.v1");
}
