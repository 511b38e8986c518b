//! Compresses messages, and decompresses them up to a limit.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::HeaderName};

use super::WireError;
use crate::blocking::{Interruption, off_worker};

pub(super) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const IDENTITY: &str = "identity";

/// The maximum ratio of a request's message to its compressed size.
pub(crate) const MAX_RATIO: usize = 128;

pub(crate) const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The maximum window of zstd as a power of two: 8 MiB, which RFC 8878 recommends that every decoder supports. The
/// window is allocated before anything is decompressed.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_LOG: u32 = 23;

/// The size up to which a request may be decompressed, whatever its compressed size, in bytes. Harmless messages have
/// long runs of the same byte, too.
const MIN_INFLATED: usize = 1 << 20;

/// The size up to which a request is decompressed by a thread that serves calls, in bytes.
const ON_WORKER: usize = 64 << 10;

/// A compression of messages. It has the variants whose features are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressionEncoding {
    /// `deflate`, which is zlib's format.
    #[cfg(feature = "deflate")]
    Deflate,
    /// `gzip`
    #[cfg(feature = "gzip")]
    Gzip,
    /// `zstd`, with a window of at most 8 MiB.
    #[cfg(feature = "zstd")]
    Zstd,
}

use CompressionEncoding as Encoding;

/// The encodings in which requests with a key may arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptedEncodings(Vec<Encoding>);

impl AcceptedEncodings {
    pub(crate) fn add(&mut self, encoding: Encoding) {
        if !self.0.contains(&encoding) {
            self.0.push(encoding);
        }
    }

    /// Returns the encoding of a request, `None` for identity; an error if it is not accepted.
    pub(super) fn of(&self, headers: &HeaderMap) -> Result<Option<Encoding>, NotAccepted> {
        let mut names = headers.get_all(GRPC_ENCODING).iter();
        let (name, others) = (names.next(), names.next());
        match name.map(|name| name.as_bytes()) {
            _ if others.is_some() => Err(NotAccepted),
            None | Some(b"identity") => Ok(None),
            Some(name) => {
                let encoding = self.0.iter().find(|encoding| encoding.as_str().as_bytes() == name);
                encoding.copied().map(Some).ok_or(NotAccepted)
            }
        }
    }

    /// Returns the names as tonic's servers send them.
    pub(crate) fn header_value(&self) -> HeaderValue {
        Encoding::names(self.0.iter().copied()).unwrap_or(HeaderValue::from_static(IDENTITY))
    }
}

/// The encoding of a request is not accepted.
#[derive(Debug)]
pub(super) struct NotAccepted;

impl Encoding {
    const ENABLED: &[Self] = &[
        #[cfg(feature = "gzip")]
        Self::Gzip,
        #[cfg(feature = "zstd")]
        Self::Zstd,
        #[cfg(feature = "deflate")]
        Self::Deflate,
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::ENABLED.iter().copied().find(|encoding| encoding.as_str() == name)
    }

    fn as_str(self) -> &'static str {
        match self {
            #[cfg(feature = "deflate")]
            Self::Deflate => "deflate",
            #[cfg(feature = "gzip")]
            Self::Gzip => "gzip",
            #[cfg(feature = "zstd")]
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn header_value(self) -> HeaderValue {
        HeaderValue::from_static(self.as_str())
    }

    /// Returns the encoding of compressed messages with these headers, whether one follows or not; `None` if there can
    /// be none.
    pub(super) fn of_messages(headers: &HeaderMap) -> Result<Option<Self>, WireError> {
        match headers.get(GRPC_ENCODING).map(HeaderValue::to_str) {
            None | Some(Ok(IDENTITY)) => Ok(None),
            Some(name) => name.ok().and_then(Self::parse).map(Some).ok_or(WireError::UnsupportedCompression),
        }
    }

    /// Returns the enabled encodings that a caller accepts, in the caller's order.
    pub(crate) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Self> {
        let values = headers.get_all(GRPC_ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|names| names.split(',')).filter_map(|name| Self::parse(name.trim()))
    }

    /// Returns whether a caller accepts only enabled encodings, and lists them in a single header as
    /// [`names`](Self::names) does.
    pub(super) fn all_enabled(headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(GRPC_ACCEPT_ENCODING).iter();
        let Some(names) = values.next() else { return true };
        let are_enabled =
            |names: &str| names.split(',').map(str::trim).all(|it| it == IDENTITY || Self::parse(it).is_some());
        values.next().is_none() && names.to_str().is_ok_and(are_enabled)
    }

    /// Returns the names of the encodings as a single header value, because tonic reads only one; `None` without
    /// encodings.
    pub(super) fn names(encodings: impl Iterator<Item = Self>) -> Option<HeaderValue> {
        let names: Vec<_> = encodings.map(Self::as_str).collect();
        (!names.is_empty()).then(|| names.join(",").try_into().ok()).flatten()
    }

    /// Compresses the message; `None` if that would not shrink it.
    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(unused_variables))]
    pub(super) fn compress(self, message: &[u8]) -> Option<Vec<u8>> {
        match self {
            #[cfg(feature = "deflate")]
            Self::Deflate => shrunk(message, flate2::read::ZlibEncoder::new(message, flate2::Compression::default())),
            #[cfg(feature = "gzip")]
            Self::Gzip => shrunk(message, flate2::read::GzEncoder::new(message, flate2::Compression::default())),
            #[cfg(feature = "zstd")]
            Self::Zstd => {
                let encoder = zstd::stream::read::Encoder::new(message, zstd::DEFAULT_COMPRESSION_LEVEL);
                shrunk(message, encoder.ok()?)
            }
        }
    }

    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(unused_variables))]
    fn decompress(self, message: &[u8], limit: usize) -> Result<Bytes, DecompressError> {
        match self {
            #[cfg(feature = "deflate")]
            Self::Deflate => read(flate2::read::ZlibDecoder::new(message), limit),
            #[cfg(feature = "gzip")]
            Self::Gzip => read(flate2::read::MultiGzDecoder::new(message), limit),
            #[cfg(feature = "zstd")]
            Self::Zstd => read(zstd_decoder(message).map_err(|_| CANNOT_DECOMPRESS)?, limit),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecompressError {
    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(dead_code))]
    TooLarge,
    Wire(WireError),
}

/// Decompresses a message with the encoding in the headers.
pub(super) fn decompress(headers: &HeaderMap, message: &[u8], limit: usize) -> Result<Bytes, DecompressError> {
    let encoding = Encoding::of_messages(headers).map_err(DecompressError::Wire)?;
    encoding.ok_or(DecompressError::Wire(WireError::NotCompressed))?.decompress(message, limit)
}

/// The size up to which a request of this compressed size may be decompressed, in bytes.
pub(crate) fn max_inflated(compressed: usize) -> usize {
    compressed.saturating_mul(MAX_RATIO).max(MIN_INFLATED)
}

/// Decompresses the message of a request, up to `limit` bytes and to [`max_inflated`]. More than [`ON_WORKER`] is
/// decompressed away from the threads that serve calls.
pub(super) async fn inflate(encoding: Encoding, message: Bytes, limit: usize) -> Result<Bytes, InflateError> {
    let bound = limit.min(max_inflated(message.len()));
    let inflated = match encoding.decompress(&message, bound.min(ON_WORKER)) {
        Err(DecompressError::TooLarge) if bound > ON_WORKER => {
            off_worker(move || encoding.decompress(&message, bound)).await.map_err(InflateError::Interrupted)?
        }
        inflated => inflated,
    };
    inflated.map_err(|error| match error {
        DecompressError::TooLarge if bound < limit => InflateError::Ratio,
        DecompressError::TooLarge => InflateError::TooLarge,
        DecompressError::Wire(error) => InflateError::Wire(error),
    })
}

/// The reason why the message of a request cannot be decompressed.
#[derive(Debug)]
pub(super) enum InflateError {
    Interrupted(Interruption),
    /// It is more than [`MAX_RATIO`] times as large as its compressed form.
    Ratio,
    TooLarge,
    Wire(WireError),
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
const CANNOT_DECOMPRESS: DecompressError = DecompressError::Wire(WireError::Compression);

#[cfg(feature = "zstd")]
fn zstd_decoder(message: &[u8]) -> std::io::Result<impl std::io::Read> {
    let mut decoder = zstd::stream::read::Decoder::new(message)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
fn shrunk(message: &[u8], mut encoder: impl std::io::Read) -> Option<Vec<u8>> {
    let mut compressed = Vec::new();
    encoder.read_to_end(&mut compressed).ok()?;
    (compressed.len() < message.len()).then_some(compressed)
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
fn read(decoder: impl std::io::Read, limit: usize) -> Result<Bytes, DecompressError> {
    use std::io::Read as _;

    let mut message = Vec::new();
    // One byte more than the limit, to detect a message that exceeds it.
    let read = decoder.take((limit as u64).saturating_add(1)).read_to_end(&mut message);
    match read {
        Ok(read) if read > limit => Err(DecompressError::TooLarge),
        Ok(_) => Ok(message.into()),
        Err(_) => Err(CANNOT_DECOMPRESS),
    }
}

#[cfg(all(test, any(feature = "deflate", feature = "gzip", feature = "zstd")))]
mod tests {
    use super::*;

    fn headers(encoding: &str) -> HeaderMap {
        [(GRPC_ENCODING, encoding.parse().expect("a value"))].into_iter().collect()
    }

    #[test]
    fn decompresses_each_encoding_up_to_the_limit() {
        for encoding in Encoding::ENABLED {
            let (headers, compressed) =
                (headers(encoding.as_str()), encoding.compress(&[7; 1000]).expect("it shrinks"));
            assert_eq!(decompress(&headers, &compressed, 1000).as_deref(), Ok([7; 1000].as_slice()), "{encoding:?}");
            assert_eq!(decompress(&headers, &compressed, 999), Err(DecompressError::TooLarge), "{encoding:?}");
        }
    }

    #[test]
    fn does_not_compress_a_message_that_would_grow() {
        for encoding in Encoding::ENABLED {
            assert_eq!(encoding.compress(b"a"), None, "{encoding:?}");
            assert_eq!(encoding.compress(b""), None, "{encoding:?}");
        }
    }

    #[test]
    fn does_not_decompress_a_bomb() {
        for encoding in Encoding::ENABLED {
            let bomb = encoding.compress(&vec![0; 1 << 24]).expect("it shrinks");
            assert!(bomb.len() < 1 << 16, "{encoding:?}");
            let headers = headers(encoding.as_str());
            assert_eq!(decompress(&headers, &bomb, 1 << 20), Err(DecompressError::TooLarge), "{encoding:?}");
        }
    }

    #[test]
    fn does_not_read_an_endless_message_beyond_the_limit() {
        assert_eq!(read(std::io::repeat(0), 1000), Err(DecompressError::TooLarge));
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn does_not_accept_a_window_larger_than_every_decoder_supports() {
        let compress = |window_log| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("a level");
            encoder.window_log(window_log).expect("a window");
            std::io::Write::write_all(&mut encoder, &[7; 1000]).expect("memory takes all");
            encoder.finish().expect("memory takes all")
        };
        assert!(decompress(&headers("zstd"), &compress(23), 1000).is_ok());
        assert_eq!(decompress(&headers("zstd"), &compress(24), 1000), Err(CANNOT_DECOMPRESS));
    }

    #[test]
    fn does_not_decompress_a_message_that_is_not_in_its_encoding() {
        for encoding in Encoding::ENABLED {
            let headers = headers(encoding.as_str());
            assert_eq!(decompress(&headers, b"plain", 1000), Err(CANNOT_DECOMPRESS), "{encoding:?}");
            let compressed = encoding.compress(&[7; 1000]).expect("it shrinks");
            let cut_off = &compressed[..compressed.len() - 4];
            assert_eq!(decompress(&headers, cut_off, 1000), Err(CANNOT_DECOMPRESS), "{encoding:?}");
        }
        let error = |error| Err(DecompressError::Wire(error));
        assert_eq!(decompress(&headers("br"), b"", 1000), error(WireError::UnsupportedCompression));
        assert_eq!(decompress(&headers("identity"), b"", 1000), error(WireError::NotCompressed));
        assert_eq!(decompress(&HeaderMap::new(), b"", 1000), error(WireError::NotCompressed));
    }

    #[test]
    #[cfg(all(feature = "gzip", feature = "zstd"))]
    fn detects_callers_that_accept_disabled_encodings() {
        for (values, expected) in [
            (&[] as &[&'static str], true),
            (&["zstd, gzip"], true),
            (&["identity,gzip"], true),
            (&["gzip,br"], false),
            (&["gzip", "zstd"], false),
            (&[""], false),
        ] {
            let headers = values.iter().map(|value| (GRPC_ACCEPT_ENCODING, HeaderValue::from_static(value)));
            assert_eq!(Encoding::all_enabled(&headers.collect()), expected, "{values:?}");
        }
    }

    #[test]
    #[cfg(all(feature = "gzip", feature = "zstd"))]
    fn keeps_the_order_of_the_caller() {
        let accepted = |values: &[&'static str]| {
            let values = values.iter().map(|value| (GRPC_ACCEPT_ENCODING, HeaderValue::from_static(value)));
            Encoding::accepted(&values.collect()).collect::<Vec<_>>()
        };
        assert_eq!(accepted(&["identity, br,zstd , gzip"]), [Encoding::Zstd, Encoding::Gzip]);
        assert_eq!(accepted(&["identity,GZIP", ""]), []);
        assert_eq!(accepted(&[]), []);
    }
}
