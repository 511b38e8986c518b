//! Undoes the compression of a message, never into more than a limit.

use bytes::Bytes;
use http::{HeaderMap, header::HeaderName};

use super::WireError;

pub(super) const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecompressError {
    #[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(dead_code))]
    TooLarge,
    Wire(WireError),
}

/// The message without its compression, which the headers name.
#[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(unused_variables))]
pub(super) fn decompress(headers: &HeaderMap, message: &[u8], limit: usize) -> Result<Bytes, DecompressError> {
    let encoding = headers.get(GRPC_ENCODING).map_or(b"identity".as_slice(), |value| value.as_bytes());
    match encoding {
        #[cfg(feature = "deflate")]
        b"deflate" => read(flate2::read::ZlibDecoder::new(message), limit),
        #[cfg(feature = "gzip")]
        b"gzip" => read(flate2::read::MultiGzDecoder::new(message), limit),
        #[cfg(feature = "zstd")]
        b"zstd" => match zstd::stream::read::Decoder::new(message) {
            Ok(decoder) => read(decoder, limit),
            Err(_) => Err(DecompressError::Wire(WireError::Compression)),
        },
        _ => Err(DecompressError::Wire(WireError::UnsupportedCompression)),
    }
}

#[cfg(any(feature = "deflate", feature = "gzip", feature = "zstd"))]
fn read(decoder: impl std::io::Read, limit: usize) -> Result<Bytes, DecompressError> {
    use std::io::Read as _;

    let mut message = Vec::new();
    // One byte more, to tell what fills the limit from what is over it.
    let read = decoder.take(limit as u64 + 1).read_to_end(&mut message);
    match read {
        Ok(read) if read > limit => Err(DecompressError::TooLarge),
        Ok(_) => Ok(message.into()),
        Err(_) => Err(DecompressError::Wire(WireError::Compression)),
    }
}

#[cfg(all(test, any(feature = "deflate", feature = "gzip", feature = "zstd")))]
mod tests {
    use std::io::Write as _;

    use super::*;

    type Compress = fn(&[u8]) -> Vec<u8>;

    /// Each encoding that is enabled, as tonic's clients write it.
    fn encodings() -> Vec<(&'static str, Compress)> {
        vec![
            #[cfg(feature = "deflate")]
            ("deflate", |message| {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
                encoder.write_all(message).expect("memory takes all");
                encoder.finish().expect("memory takes all")
            }),
            #[cfg(feature = "gzip")]
            ("gzip", |message| {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                encoder.write_all(message).expect("memory takes all");
                encoder.finish().expect("memory takes all")
            }),
            #[cfg(feature = "zstd")]
            ("zstd", |message| {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("a level");
                encoder.write_all(message).expect("memory takes all");
                encoder.finish().expect("memory takes all")
            }),
        ]
    }

    fn headers(encoding: &'static str) -> HeaderMap {
        [(GRPC_ENCODING, http::HeaderValue::from_static(encoding))].into_iter().collect()
    }

    #[test]
    fn undoes_each_encoding_up_to_the_limit() {
        for (encoding, compress) in encodings() {
            let (headers, compressed) = (headers(encoding), compress(&[7; 1000]));
            assert_eq!(decompress(&headers, &compressed, 1000).as_deref(), Ok([7; 1000].as_slice()), "{encoding}");
            assert_eq!(decompress(&headers, &compressed, 999), Err(DecompressError::TooLarge), "{encoding}");
        }
    }

    #[test]
    fn does_not_unpack_a_bomb() {
        for (encoding, compress) in encodings() {
            let bomb = compress(&vec![0; 1 << 24]);
            assert!(bomb.len() < 1 << 16, "{encoding}");
            assert_eq!(decompress(&headers(encoding), &bomb, 1 << 20), Err(DecompressError::TooLarge), "{encoding}");
        }
    }

    #[test]
    fn does_not_take_what_is_not_compressed_so() {
        let error = Err(DecompressError::Wire(WireError::Compression));
        for (encoding, compress) in encodings() {
            assert_eq!(decompress(&headers(encoding), b"plain", 1000), error, "{encoding}");
            let compressed = compress(&[7; 1000]);
            let cut_off = &compressed[..compressed.len() - 4];
            assert_eq!(decompress(&headers(encoding), cut_off, 1000), error, "{encoding}");
        }
        let unsupported = Err(DecompressError::Wire(WireError::UnsupportedCompression));
        assert_eq!(decompress(&headers("br"), b"", 1000), unsupported);
        assert_eq!(decompress(&HeaderMap::new(), b"", 1000), unsupported);
    }
}
