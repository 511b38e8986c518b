//! The fuzz target of the framing.

use bytes::Bytes;

use super::world::{LIMIT, World, canonical};

/// The value of `grpc-encoding`, chosen by the input's first byte.
const ENCODINGS: [Option<&str>; 6] =
    [None, Some("identity"), Some("gzip"), Some("deflate"), Some("zstd"), Some("unknown")];

/// Takes a gRPC body and sends it with a key. The result is one handled message, or an error that leaves nothing
/// behind.
///
/// The first byte chooses the encoding; the rest is the body.
///
/// # Panics
///
/// The property does not hold.
pub fn framing(input: &[u8]) {
    let Some((&choice, body)) = input.split_first() else { return };
    let encoding = ENCODINGS[usize::from(choice) % ENCODINGS.len()];
    let body = Bytes::copy_from_slice(body);
    super::runtime().block_on(async {
        let world = World::new();
        let answer = world.send("application/grpc", encoding, body.clone()).await;
        assert_eq!(answer.http, 200, "gRPC reports errors in its own status");
        let handled = world.handled();

        match plain(&body) {
            _ if encoding == Some("unknown") => assert_eq!(handled.len(), 0, "not even if it is not used"),
            Some(message) if message.len() <= LIMIT && canonical().hash(message).is_ok() => {
                assert_eq!(handled, [Bytes::copy_from_slice(message)], "one message is handled");
            }
            Some(_) => assert_eq!(handled.len(), 0, "a message that cannot be hashed is not handled"),
            None => assert!(handled.len() <= 1),
        }
        if handled.is_empty() {
            let code = answer.code().expect("a status");
            assert!(["8", "12", "13"].contains(&code), "an error of the framing: {code}");
            assert!(world.key_is_free().await, "a refused call reserves nothing");
        } else {
            assert_eq!(answer.code(), Some("0"));
            assert!(handled.iter().all(|message| message.len() <= LIMIT), "decompression is bounded");
            let replay = world.send("application/grpc", encoding, body).await;
            assert!(replay.is_replay());
            assert_eq!(world.handled().len(), 1);
        }
    });
}

/// The message of an uncompressed body with exactly one.
fn plain(body: &[u8]) -> Option<&[u8]> {
    let (&[flag, length @ ..], message) = body.split_first_chunk::<5>()?;
    (flag == 0 && message.len() == u32::from_be_bytes(length) as usize).then_some(message)
}
