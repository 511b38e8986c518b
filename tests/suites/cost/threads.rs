//! The threads on which long computations run.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::runtime;
use tonic_idempotency::{layer::CompressionEncoding, store::MemoryStore};

use crate::prelude::*;

/// Returns the number of blocking threads of a call whose message has this many bytes of padding.
fn threads(padding: usize, compressed: bool) -> usize {
    let threads = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&threads);
    let mut builder = runtime::Builder::new_current_thread();
    builder.enable_time().on_thread_start(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let builder_of_layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).accept_compressed(CompressionEncoding::Gzip);
    let layer = builder_of_layer.store(MemoryStore::new()).build().expect("the layer can be built");
    let mut service = layer.layer(bare(&Counting::default()));

    // Bytes that do not become much smaller.
    let padding = (0..padding as u32).map(|index| (index.wrapping_mul(0x9e37_79b1) >> 24) as u8 & 0x3f).collect();
    let message = CreateOrderRequest { name: "a".to_owned(), padding, ..Default::default() }.encode_to_vec();
    let message = if compressed { gzip(&message) } else { message };
    let length = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    let body = [[u8::from(compressed)].as_slice(), &length, &message].concat();
    let mut request = Request::post(CREATE)
        .header("content-type", "application/grpc")
        .header("idempotency-key", Uuid::new_v4().to_string())
        .header("grpc-encoding", if compressed { "gzip" } else { "identity" })
        .body(Body::new(Full::new(body.into())))
        .expect("a request");
    request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
    let response = builder.build().expect("a runtime").block_on(call(&mut service, request));
    assert_eq!(response.headers()["idempotency-status"], "processing");
    threads.load(Ordering::SeqCst)
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, message).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

#[test]
fn of_large_messages_are_not_those_that_serve_calls() {
    for compressed in [false, true] {
        assert_eq!(threads(1000, compressed), 0, "a small message: {compressed}");
        assert!(threads(100_000, compressed) > 0, "a large message: {compressed}");
    }
}
