//! One message in several encodings.

use bytes::{Buf as _, BufMut as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::prelude::*;

/// A codec that sends and receives encoded messages.
#[derive(Clone, Copy)]
struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

async fn send(shop: &Shop, message: Vec<u8>) -> Result<Seen, Status> {
    let mut client = tonic::client::Grpc::new(shop.channel.clone());
    client.ready().await.expect("the server listens");
    let path = http::uri::PathAndQuery::from_static("/shop.v1.Shop/CreateOrder");
    let request: Request<Bytes> = shop::with(message.into(), shop.user, shop.key);
    client.unary(request, path, AsIs).await.map(Seen::of)
}

#[tokio::test]
async fn reordered_and_repeated_fields_are_the_same_request() {
    let shop = Shop::new().await;
    shop.create("a").await.expect("the first call").assert("processing", false);
    // labels b and a, a given twice, name twice with a padded length
    let shuffled =
        b"\x12\x06\x0a\x01b\x12\x012\x12\x06\x0a\x01a\x12\x01x\x0a\x01z\x12\x06\x12\x011\x0a\x01a\x0a\x81\x00a";
    assert_eq!(
        CreateOrderRequest::decode(shuffled.as_slice()).expect("a message"),
        shop::request("a", None, None).into_inner(),
        "it is the same message"
    );
    send(&shop, shuffled.to_vec()).await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.finished(), 1);
}

#[tokio::test]
async fn a_compressed_message_is_the_same_request() {
    let shop = Shop::new().await;
    let mut zipped = shop.client.clone().send_compressed(CompressionEncoding::Gzip);
    let first = zipped.create_order(shop::request("a", shop.user, shop.key)).await.map(Seen::of).expect("first");
    first.assert("processing", false);
    assert!(first.message.contains("name: \"a\""), "the handler got the message: {first:?}");
    shop.create("a").await.expect("a replay").assert_replays("processing", &first);
}

#[tokio::test]
async fn a_malformed_message_is_refused_and_reserves_nothing() {
    let shop = Shop::new().await;
    for garbage in [b"\x0a\x05a".as_slice(), b"\x0a\x01\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0e"]
    {
        let status = send(&shop, garbage.to_vec()).await.expect_err("a malformed message");
        assert_eq!((status.code(), Reason::of(&status)), (Code::Internal, Some(Reason::RequestMalformed)));
    }
    assert_eq!(shop.handler.started(), 0);
    shop.create("a").await.expect("nothing is reserved").assert("processing", false);
}
