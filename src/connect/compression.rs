//! The compressions of Connect messages.

use connectrpc::compression::CompressionRegistry;

/// Returns the compressions whose features are enabled.
pub(super) fn registry() -> CompressionRegistry {
    let built_in = CompressionRegistry::default();
    #[cfg(feature = "deflate")]
    let built_in = built_in.register(Deflate);
    built_in
}

/// `deflate` as HTTP and gRPC name it: with the header and the checksum of zlib. `connectrpc` does not have it.
#[cfg(feature = "deflate")]
struct Deflate;

#[cfg(feature = "deflate")]
impl connectrpc::CompressionProvider for Deflate {
    fn name(&self) -> &'static str {
        "deflate"
    }

    fn compress(&self, message: &[u8]) -> Result<bytes::Bytes, connectrpc::ConnectError> {
        let mut compressed = Vec::new();
        let mut encoder = flate2::read::ZlibEncoder::new(message, flate2::Compression::default());
        let read = std::io::Read::read_to_end(&mut encoder, &mut compressed);
        read.map_err(|error| connectrpc::ConnectError::internal(format!("deflate: {error}")))?;
        Ok(compressed.into())
    }

    fn decompressor<'a>(&self, message: &'a [u8]) -> Result<Box<dyn std::io::Read + 'a>, connectrpc::ConnectError> {
        Ok(Box::new(flate2::read::ZlibDecoder::new(message)))
    }
}
