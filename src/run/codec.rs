//! How the requests of an operation are hashed, and its responses stored: [`Codec`].

use std::{error::Error, fmt, marker::PhantomData};

use prost_reflect::DescriptorPool;
use protobuf_canonical::Canonical;
use sha2::{Digest as _, Sha256};

#[cfg(feature = "json")]
use super::finite::check_finite;

/// An error of a codec, in words.
pub type CodecError = Box<dyn Error + Send + Sync>;

/// How the requests of an operation are hashed, and its responses stored. A request is compared by its hash, and never stored.
///
/// [`Prost`], [`Json`](crate::run) (feature `json`) and [`Bytes`] are there; another format is an implementation of this trait.
pub trait Codec: Send + Sync + Sized + 'static {
    /// The request.
    type Request: ?Sized;

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
    Q: prost::Message + prost::Name + 'static,
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

/// JSON. A request is hashed in its canonical form (RFC 8785), so that the order of its fields does not matter. A number that JSON's
/// readers round, such as an integer beyond 2⁵³, has no such form: send it as a string. NaN and infinities are refused in both.
#[cfg(feature = "json")]
pub struct Json<Q: ?Sized, R>(PhantomData<fn(&Q) -> R>);

#[cfg(feature = "json")]
impl<Q, R> Codec for Json<Q, R>
where
    Q: serde::Serialize + ?Sized + 'static,
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
        check_numbers(&serde_json::to_value(request)?)?;
        Ok(Sha256::digest(serde_json_canonicalizer::to_vec(&request)?).into())
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

/// Refuses integers that a double cannot hold: two of them would be the same request.
#[cfg(feature = "json")]
fn check_numbers(value: &serde_json::Value) -> Result<(), CodecError> {
    const MOST: u64 = 1 << 53;
    match value {
        serde_json::Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            match size.is_some_and(|size| size > MOST) {
                true => {
                    Err(format!("{number} is beyond 2^53, where JSON's numbers are not exact; send it as a string")
                        .into())
                }
                false => Ok(()),
            }
        }
        serde_json::Value::Array(items) => items.iter().try_for_each(check_numbers),
        serde_json::Value::Object(fields) => fields.values().try_for_each(check_numbers),
        _ => Ok(()),
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
        Ok(Sha256::digest(request).into())
    }

    fn encode(response: &Vec<u8>) -> Result<Vec<u8>, CodecError> {
        Ok(response.clone())
    }

    fn decode(stored: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(stored.to_vec())
    }
}
