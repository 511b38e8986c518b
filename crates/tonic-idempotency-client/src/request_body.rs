//! The body of a request, as far as it is there at once.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use tonic::{Status, body::Body};

/// The length of the head of a message's frame: whether it is compressed, and its length.
pub(crate) const HEAD: usize = 5;

/// The body of a request, after an attempt to read it whole.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// It is one message, in its frame.
    Message(Bytes),
    /// It is not: it is larger than the limit, or a stream.
    Other(Body),
}

impl RequestBody {
    /// Reads the body as far as it is there at once, which is all of it if the call is unary.
    pub(crate) fn read(mut body: Body, limit: usize) -> Self {
        let mut read = VecDeque::new();
        let mut message = Bytes::new();
        while message.len() <= limit.saturating_add(HEAD) {
            match poll(&mut body) {
                Poll::Ready(None) if is_one(&message) => return Self::Message(message),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => message = joined(message, data),
                    Err(trailers) => {
                        read.push_back(Ok(trailers));
                        break;
                    }
                },
                Poll::Ready(Some(Err(error))) => {
                    read.push_back(Err(error));
                    break;
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        read.push_front(Ok(Frame::data(message)));
        Self::Other(Body::new(ReadAheadBody { read, rest: body }))
    }
}

/// Polls a body once, without registering a waker.
fn poll(body: &mut Body) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

fn joined(before: Bytes, data: Bytes) -> Bytes {
    if before.is_empty() {
        return data;
    }
    let mut joined = BytesMut::from(before);
    joined.extend_from_slice(&data);
    joined.freeze()
}

/// Returns whether this is the frame of one message.
fn is_one(message: &[u8]) -> bool {
    let length = message.get(1..HEAD).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    length.is_some_and(|length| usize::try_from(length) == Ok(message.len() - HEAD))
}

/// A body of which frames were read ahead: replays them, then continues with the rest.
struct ReadAheadBody {
    read: VecDeque<Result<Frame<Bytes>, Status>>,
    rest: Body,
}

impl http_body::Body for ReadAheadBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.read.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn frame(message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(message.len()).expect("short").to_be_bytes());
        frame.extend_from_slice(message);
        frame
    }

    /// A body of these pieces. It then ends, or has no more for now.
    fn body(pieces: Vec<Vec<u8>>, ends: bool) -> Body {
        let mut pieces = pieces.into_iter();
        Body::new(Pieces { next: Box::new(move || pieces.next()), ends })
    }

    struct Pieces {
        next: Box<dyn FnMut() -> Option<Vec<u8>> + Send>,
        ends: bool,
    }

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match (self.next)() {
                Some(piece) => Poll::Ready(Some(Ok(Frame::data(piece.into())))),
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    #[test]
    fn is_the_message_of_a_unary_call_in_one_piece_or_several() {
        let message = frame(b"shop");
        for pieces in [vec![message.clone()], message.chunks(2).map(<[u8]>::to_vec).collect()] {
            let RequestBody::Message(read) = RequestBody::read(body(pieces, true), 4) else { panic!("a message") };
            assert_eq!(read, message);
        }
    }

    #[test]
    fn is_the_unchanged_body_of_any_other_call() {
        let message = frame(b"shop");
        let two = [message.clone(), message.clone()].concat();
        for (pieces, limit) in [
            (vec![two.clone()], 100),
            (vec![message.clone(), message.clone()], 100),
            (vec![message.clone()], 3),
            (vec![message[..3].to_vec()], 100),
            (vec![], 100),
        ] {
            let expected = pieces.concat();
            let RequestBody::Other(mut other) = RequestBody::read(body(pieces, true), limit) else {
                panic!("no message")
            };
            let mut all = Vec::new();
            while let Poll::Ready(Some(frame)) = poll(&mut other) {
                all.extend_from_slice(frame.expect("a frame").data_ref().expect("data"));
            }
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn is_the_body_of_a_stream_that_has_no_more_for_now() {
        assert!(matches!(RequestBody::read(body(vec![frame(b"shop")], false), 100), RequestBody::Other(_)));
    }
}
