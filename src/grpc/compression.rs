//! Compresses a message, and undoes that, never into more than a limit.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::HeaderName};

use super::WireError;

pub(super) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// Not compressed.
const IDENTITY: &str = "identity";

pub(crate) const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The largest window that zstd may ask for, as a power of two: 8 MiB, what RFC 8878 has every decoder support. It is
/// allocated before anything is read.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_LOG: u32 = 23;

/// A way to compress messages that is enabled here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[cfg(feature = "deflate")]
    Deflate,
    #[cfg(feature = "gzip")]
    Gzip,
    #[cfg(feature = "zstd")]
    Zstd,
}

impl Encoding {
    /// All of them.
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

    /// Those that a caller accepts and that are enabled, in its own order.
    pub(crate) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Self> {
        let values = headers.get_all(GRPC_ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|names| names.split(',')).filter_map(|name| Self::parse(name.trim()))
    }

    /// Whether a caller accepts nothing but what is enabled, and says so as [`names`](Self::names) would.
    pub(super) fn all_enabled(headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(GRPC_ACCEPT_ENCODING).iter();
        let Some(names) = values.next() else { return true };
        let are_enabled =
            |names: &str| names.split(',').map(str::trim).all(|it| it == IDENTITY || Self::parse(it).is_some());
        values.next().is_none() && names.to_str().is_ok_and(are_enabled)
    }

    /// What a caller may send, for a header.
    pub(crate) fn enabled() -> HeaderValue {
        Self::names(Self::ENABLED.iter().copied()).unwrap_or(HeaderValue::from_static(IDENTITY))
    }

    /// Their names for a header, in one value: tonic reads no more. `None` where there are none.
    pub(super) fn names(encodings: impl Iterator<Item = Self>) -> Option<HeaderValue> {
        let names: Vec<_> = encodings.map(Self::as_str).collect();
        (!names.is_empty()).then(|| names.join(",").try_into().ok()).flatten()
    }

    /// What makes less of a message; `None` where nothing is won.
    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(unused_variables))]
    pub(super) fn compress(self, message: &[u8]) -> Option<Vec<u8>> {
        match self {
            #[cfg(feature = "deflate")]
            Self::Deflate => less(message, flate2::read::ZlibEncoder::new(message, flate2::Compression::default())),
            #[cfg(feature = "gzip")]
            Self::Gzip => less(message, flate2::read::GzEncoder::new(message, flate2::Compression::default())),
            #[cfg(feature = "zstd")]
            Self::Zstd => {
                let encoder = zstd::stream::read::Encoder::new(message, zstd::DEFAULT_COMPRESSION_LEVEL);
                less(message, encoder.ok()?)
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
            Self::Zstd => read(zstd_decoder(message).map_err(|_| CANNOT)?, limit),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecompressError {
    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(dead_code))]
    TooLarge,
    Wire(WireError),
}

/// The message without its compression, which the headers name.
pub(super) fn decompress(headers: &HeaderMap, message: &[u8], limit: usize) -> Result<Bytes, DecompressError> {
    let encoding = match headers.get(GRPC_ENCODING).map(|encoding| encoding.as_bytes()) {
        None | Some(b"identity") => return Err(DecompressError::Wire(WireError::NotCompressed)),
        Some(name) => std::str::from_utf8(name).ok().and_then(Encoding::parse),
    };
    let encoding = encoding.ok_or(DecompressError::Wire(WireError::UnsupportedCompression))?;
    encoding.decompress(message, limit)
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
const CANNOT: DecompressError = DecompressError::Wire(WireError::Compression);

#[cfg(feature = "zstd")]
fn zstd_decoder(message: &[u8]) -> std::io::Result<impl std::io::Read> {
    let mut decoder = zstd::stream::read::Decoder::new(message)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
fn less(message: &[u8], mut encoder: impl std::io::Read) -> Option<Vec<u8>> {
    let mut compressed = Vec::new();
    encoder.read_to_end(&mut compressed).ok()?;
    (compressed.len() < message.len()).then_some(compressed)
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
fn read(decoder: impl std::io::Read, limit: usize) -> Result<Bytes, DecompressError> {
    use std::io::Read as _;

    let mut message = Vec::new();
    // One byte more, to tell what fills the limit from what is over it.
    let read = decoder.take((limit as u64).saturating_add(1)).read_to_end(&mut message);
    match read {
        Ok(read) if read > limit => Err(DecompressError::TooLarge),
        Ok(_) => Ok(message.into()),
        Err(_) => Err(CANNOT),
    }
}

#[cfg(all(test, any(feature = "deflate", feature = "gzip", feature = "zstd")))]
mod tests {
    use super::*;

    fn headers(encoding: &str) -> HeaderMap {
        [(GRPC_ENCODING, encoding.parse().expect("a value"))].into_iter().collect()
    }

    #[test]
    fn undoes_each_encoding_up_to_the_limit() {
        for encoding in Encoding::ENABLED {
            let (headers, compressed) = (headers(encoding.as_str()), encoding.compress(&[7; 1000]).expect("less"));
            assert_eq!(decompress(&headers, &compressed, 1000).as_deref(), Ok([7; 1000].as_slice()), "{encoding:?}");
            assert_eq!(decompress(&headers, &compressed, 999), Err(DecompressError::TooLarge), "{encoding:?}");
        }
    }

    #[test]
    fn does_not_compress_what_would_grow() {
        for encoding in Encoding::ENABLED {
            assert_eq!(encoding.compress(b"a"), None, "{encoding:?}");
            assert_eq!(encoding.compress(b""), None, "{encoding:?}");
        }
    }

    #[test]
    fn does_not_unpack_a_bomb() {
        for encoding in Encoding::ENABLED {
            let bomb = encoding.compress(&vec![0; 1 << 24]).expect("less");
            assert!(bomb.len() < 1 << 16, "{encoding:?}");
            let headers = headers(encoding.as_str());
            assert_eq!(decompress(&headers, &bomb, 1 << 20), Err(DecompressError::TooLarge), "{encoding:?}");
        }
    }

    #[test]
    fn does_not_read_more_than_the_limit_of_what_has_no_end() {
        assert_eq!(read(std::io::repeat(0), 1000), Err(DecompressError::TooLarge));
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn does_not_make_room_for_more_than_every_decoder_has_to() {
        let compress = |window_log| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("a level");
            encoder.window_log(window_log).expect("a window");
            std::io::Write::write_all(&mut encoder, &[7; 1000]).expect("memory takes all");
            encoder.finish().expect("memory takes all")
        };
        assert!(decompress(&headers("zstd"), &compress(23), 1000).is_ok());
        assert_eq!(decompress(&headers("zstd"), &compress(24), 1000), Err(CANNOT));
    }

    #[test]
    fn does_not_take_what_is_not_compressed_so() {
        for encoding in Encoding::ENABLED {
            let headers = headers(encoding.as_str());
            assert_eq!(decompress(&headers, b"plain", 1000), Err(CANNOT), "{encoding:?}");
            let compressed = encoding.compress(&[7; 1000]).expect("less");
            let cut_off = &compressed[..compressed.len() - 4];
            assert_eq!(decompress(&headers, cut_off, 1000), Err(CANNOT), "{encoding:?}");
        }
        let error = |error| Err(DecompressError::Wire(error));
        assert_eq!(decompress(&headers("br"), b"", 1000), error(WireError::UnsupportedCompression));
        assert_eq!(decompress(&headers("identity"), b"", 1000), error(WireError::NotCompressed));
        assert_eq!(decompress(&HeaderMap::new(), b"", 1000), error(WireError::NotCompressed));
    }

    #[test]
    #[cfg(all(feature = "gzip", feature = "zstd"))]
    fn tells_callers_who_accept_what_is_not_enabled() {
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
    fn takes_the_callers_order() {
        let accepted = |values: &[&'static str]| {
            let values = values.iter().map(|value| (GRPC_ACCEPT_ENCODING, HeaderValue::from_static(value)));
            Encoding::accepted(&values.collect()).collect::<Vec<_>>()
        };
        assert_eq!(accepted(&["identity, br,zstd , gzip"]), [Encoding::Zstd, Encoding::Gzip]);
        assert_eq!(accepted(&["identity,GZIP", ""]), []);
        assert_eq!(accepted(&[]), []);
    }
}
