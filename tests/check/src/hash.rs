//! The hash by which two requests are the same.

use std::{io::Read as _, sync::LazyLock};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::request::Parts;
use prost_reflect::DescriptorPool;
use protobuf_canonical::Canonical;
use sha2::{Digest as _, Sha256};

use crate::{
    ARRIVED,
    fault::{Fault, Faults},
    shop::FILE_DESCRIPTOR_SET,
};

/// The length of what stands before a message of gRPC.
const PREFIX: usize = 5;

static REQUEST: LazyLock<Canonical> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("the service's descriptors");
    Canonical::new(&pool.get_message_by_name("check.v1.CreateOrderRequest").expect("the request"))
});

/// Returns the hash of a call's body; `None` if that has no message.
pub(crate) fn of(call: &Parts, body: &Bytes, faults: Faults) -> Option<Vec<u8>> {
    let is_compressed = *body.first()? == 1;
    let message = body.get(PREFIX..)?;
    if is_compressed && faults.has(Fault::HashCompressed) {
        return Some(Sha256::digest(message).to_vec());
    }
    let mut plain = Vec::new();
    if is_compressed {
        GzDecoder::new(message).read_to_end(&mut plain).ok()?;
    } else {
        plain.extend_from_slice(message);
    }
    // What was JSON has no bytes of the client's.
    let is_binary = call.headers.get(ARRIVED).is_none_or(|arrived| arrived != "application/json");
    if faults.has(Fault::RawHash) && is_binary {
        return Some(Sha256::digest(plain).to_vec());
    }
    Some(REQUEST.hash(&plain).ok()?.as_bytes().to_vec())
}
