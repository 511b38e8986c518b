//! How the requests of an operation are hashed, and its responses stored: [`Codec`].

use std::{error::Error, fmt, marker::PhantomData};

use prost_reflect::DescriptorPool;
use protobuf_canonical::{Canonical, RequestHash, RequestHashes};
use sha2::{Digest as _, Sha256};

#[cfg(feature = "json")]
use super::{canonical_json, finite::check_finite};

/// An error of a codec, in words.
pub type CodecError = Box<dyn Error + Send + Sync>;

/// How the requests of an operation are hashed, and its responses stored. A request is compared by its hash, and never stored.
///
/// [`Prost`], [`Json`](crate::run) (feature `json`) and [`Bytes`] are there; another format is an implementation of this trait.
pub trait Codec: Send + Sync + Sized + 'static {
    /// The request.
    type Request: ?Sized + ToOwned<Owned: Send + 'static>;

    /// The response.
    type Response: Send + 'static;

    /// The codec's name, which is stored with each response: one of another codec is refused, and not misread.
    const NAME: &'static str;

    /// Makes the codec of one operation. `descriptors` are the layer's.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if it cannot work.
    fn new(descriptors: &DescriptorPool) -> Result<Self, CodecError>;

    /// Hashes a request: equal requests have equal hashes, however they are written.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if it has no such hash.
    fn hash(&self, request: &Self::Request) -> Result<[u8; 32], CodecError>;

    /// Reads a request from the bytes that were delivered.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if they are none: it becomes [`RunError::Malformed`](super::RunError::Malformed).
    fn read(bytes: &[u8]) -> Result<<Self::Request as ToOwned>::Owned, CodecError>;

    /// Hashes a request as it was delivered, and as it was read from these bytes. A delivery is of the same request as the first one if any
    /// of its hashes is one of the first one's. So the same bytes have an equal hash in each version of the program, whatever fields it
    /// knows. Defaults to the [`hash`](Self::hash) of the request, and the SHA-256 of the bytes.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if it has no such hash.
    fn hashes(&self, bytes: &[u8], request: &Self::Request) -> Result<RequestHashes, CodecError> {
        Ok(RequestHashes::new(self.hash(request)?.into(), Some(of_bytes(bytes).into())))
    }

    /// Encodes a response.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if it cannot be encoded: then a transactional operation is [rolled back](super::RunError::Response), and after a
    /// reserved one, a later call is told that the response was not stored.
    fn encode(response: &Self::Response) -> Result<Vec<u8>, CodecError>;

    /// Decodes a stored response.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if the bytes are none.
    fn decode(stored: &[u8]) -> Result<Self::Response, CodecError>;
}

/// Messages of prost. The request's type has to be in the layer's descriptors: its hash is of the canonical encoding, as in a gRPC call.
/// (prost-build implements [`prost::Name`] with `enable_type_names`.)
pub struct Prost<Q, R> {
    canonical: Canonical,
    types: PhantomData<fn(&Q) -> R>,
}

impl<Q, R> Codec for Prost<Q, R>
where
    Q: prost::Message + prost::Name + Clone + Default + 'static,
    R: prost::Message + Default + 'static,
{
    type Request = Q;
    type Response = R;

    const NAME: &'static str = "protobuf";

    fn new(descriptors: &DescriptorPool) -> Result<Self, CodecError> {
        let name = Q::full_name();
        let Some(message) = descriptors.get_message_by_name(&name) else {
            return Err(format!("{name} is not in the layer's descriptors; add the descriptors of its file").into());
        };
        Ok(Self { canonical: Canonical::new(&message), types: PhantomData })
    }

    fn hash(&self, request: &Q) -> Result<[u8; 32], CodecError> {
        Ok(*self.canonical.hash(&request.encode_to_vec())?.as_bytes())
    }

    fn read(bytes: &[u8]) -> Result<Q, CodecError> {
        Ok(Q::decode(bytes)?)
    }

    /// Of the bytes: the value may have lost fields that it does not know.
    fn hashes(&self, bytes: &[u8], _request: &Q) -> Result<RequestHashes, CodecError> {
        Ok(self.canonical.hashes(bytes)?)
    }

    fn encode(response: &R) -> Result<Vec<u8>, CodecError> {
        Ok(response.encode_to_vec())
    }

    fn decode(stored: &[u8]) -> Result<R, CodecError> {
        Ok(R::decode(stored)?)
    }
}

impl<Q, R> fmt::Debug for Prost<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prost")
    }
}

/// JSON. A request is hashed in a canonical form, in which neither the order of its fields nor the way in which a number is written matters:
/// that of RFC 8785, except that integers beyond 2⁵³ are exact. NaN and infinities are refused. Of [delivered](super::Operation::receive)
/// bytes the hash is of the value that is read from them, so that fields which it does not have do not count; or else of the bytes, so that
/// the same bytes are the same request to a program with other fields.
#[cfg(feature = "json")]
pub struct Json<Q: ?Sized, R>(PhantomData<fn(&Q) -> R>);

#[cfg(feature = "json")]
impl<Q, R> Codec for Json<Q, R>
where
    Q: serde::Serialize + ToOwned<Owned: serde::de::DeserializeOwned + Send + 'static> + ?Sized + 'static,
    R: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
{
    type Request = Q;
    type Response = R;

    const NAME: &'static str = "json";

    fn new(_descriptors: &DescriptorPool) -> Result<Self, CodecError> {
        Ok(Self(PhantomData))
    }

    fn hash(&self, request: &Q) -> Result<[u8; 32], CodecError> {
        check_finite(request)?;
        Ok(Sha256::digest(canonical_json::encode(request)?).into())
    }

    fn read(bytes: &[u8]) -> Result<Q::Owned, CodecError> {
        Ok(serde_json::from_slice(bytes)?)
    }

    fn encode(response: &R) -> Result<Vec<u8>, CodecError> {
        check_finite(response)?;
        Ok(serde_json::to_vec(response)?)
    }

    fn decode(stored: &[u8]) -> Result<R, CodecError> {
        Ok(serde_json::from_slice(stored)?)
    }
}

#[cfg(feature = "json")]
impl<Q: ?Sized, R> fmt::Debug for Json<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

/// Bytes as they are: two requests are the same if all their bytes are.
#[derive(Debug)]
pub struct Bytes(());

impl Codec for Bytes {
    type Request = [u8];
    type Response = Vec<u8>;

    const NAME: &'static str = "bytes";

    fn new(_descriptors: &DescriptorPool) -> Result<Self, CodecError> {
        Ok(Self(()))
    }

    fn hash(&self, request: &[u8]) -> Result<[u8; 32], CodecError> {
        Ok(of_bytes(request))
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }

    /// One hash: the request is the bytes.
    fn hashes(&self, bytes: &[u8], _request: &[u8]) -> Result<RequestHashes, CodecError> {
        Ok(RequestHash::from(of_bytes(bytes)).into())
    }

    fn encode(response: &Vec<u8>) -> Result<Vec<u8>, CodecError> {
        Ok(response.clone())
    }

    fn decode(stored: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(stored.to_vec())
    }
}

fn of_bytes(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
