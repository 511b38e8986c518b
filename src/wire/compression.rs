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

#[cfg(all(test, feature = "gzip"))]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(message: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(message).expect("memory takes all");
        encoder.finish().expect("memory takes all")
    }

    fn headers(encoding: &'static str) -> HeaderMap {
        [(GRPC_ENCODING, http::HeaderValue::from_static(encoding))].into_iter().collect()
    }

    #[test]
    fn undoes_gzip_up_to_the_limit() {
        let message = [7; 1000];
        assert_eq!(decompress(&headers("gzip"), &gzip(&message), 1000).as_deref(), Ok(message.as_slice()));
    }

    #[test]
    fn does_not_unpack_a_bomb() {
        let bomb = gzip(&vec![0; 1 << 24]);
        assert_eq!(decompress(&headers("gzip"), &bomb, 1 << 20), Err(DecompressError::TooLarge));
    }

    #[test]
    fn does_not_take_what_is_no_gzip() {
        let error = Err(DecompressError::Wire(WireError::Compression));
        assert_eq!(decompress(&headers("gzip"), b"plain", 1000), error);
        let cut_off = &gzip(&[7; 1000])[..12];
        assert_eq!(decompress(&headers("gzip"), cut_off, 1000), error);
        let unsupported = Err(DecompressError::Wire(WireError::UnsupportedCompression));
        assert_eq!(decompress(&headers("br"), b"", 1000), unsupported);
        assert_eq!(decompress(&HeaderMap::new(), b"", 1000), unsupported);
    }
}
