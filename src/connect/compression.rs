//! The compressions of Connect messages.

use std::io::Read;

use bytes::Bytes;
use connectrpc::{CompressionProvider, ConnectError, ErrorCode, compression::CompressionRegistry};

use crate::grpc::{MAX_RATIO, max_inflated};

/// Returns the compressions whose features are enabled.
pub(super) fn registry() -> CompressionRegistry {
    let registry = CompressionRegistry::new();
    #[cfg(feature = "gzip")]
    let registry = registry.register(Bounded(connectrpc::compression::GzipProvider::default()));
    #[cfg(feature = "zstd")]
    let registry = registry.register(Bounded(connectrpc::compression::ZstdProvider::default()));
    #[cfg(feature = "deflate")]
    let registry = registry.register(Bounded(Deflate));
    registry
}

/// A compression that refuses messages whose compression ratio is too high, as over gRPC.
#[cfg_attr(not(any(feature = "deflate", feature = "gzip", feature = "zstd")), expect(dead_code))]
struct Bounded<P>(P);

impl<P: CompressionProvider> CompressionProvider for Bounded<P> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn compress(&self, message: &[u8]) -> Result<Bytes, ConnectError> {
        self.0.compress(message)
    }

    fn decompressor<'a>(&self, message: &'a [u8]) -> Result<Box<dyn Read + 'a>, ConnectError> {
        self.0.decompressor(message)
    }

    fn decompress_with_limit(&self, message: &[u8], limit: usize) -> Result<Bytes, ConnectError> {
        let bound = max_inflated(message.len());
        self.0.decompress_with_limit(message, bound.min(limit)).map_err(|error| match error.code {
            ErrorCode::ResourceExhausted if bound < limit => ConnectError::resource_exhausted(format!(
                "the message is more than {MAX_RATIO} times as large as it is compressed; send it uncompressed"
            )),
            _ => error,
        })
    }
}

/// `deflate` as HTTP and gRPC name it: with the header and the checksum of zlib. `connectrpc` does not have it.
#[cfg(feature = "deflate")]
struct Deflate;

#[cfg(feature = "deflate")]
impl CompressionProvider for Deflate {
    fn name(&self) -> &'static str {
        "deflate"
    }

    fn compress(&self, message: &[u8]) -> Result<Bytes, ConnectError> {
        let mut compressed = Vec::new();
        let mut encoder = flate2::read::ZlibEncoder::new(message, flate2::Compression::default());
        let read = encoder.read_to_end(&mut compressed);
        read.map_err(|error| ConnectError::internal(format!("deflate: {error}")))?;
        Ok(compressed.into())
    }

    fn decompressor<'a>(&self, message: &'a [u8]) -> Result<Box<dyn Read + 'a>, ConnectError> {
        Ok(Box::new(flate2::read::ZlibDecoder::new(message)))
    }
}
