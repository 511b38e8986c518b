//! The interceptor that parses keys for handlers without the layer.

use tonic::{Request, Status, service::Interceptor};

use crate::{key::IdempotencyKey, rejection::Rejection};

/// Parses the key of a request into its extensions, so that the handler can read it, and refuses a malformed key.
///
/// The layer does the same for the procedures that it protects, and does not need the interceptor. Use it for handlers
/// without the layer, or of procedures that are not opted in.
///
/// ```
/// use tonic::{Request, service::Interceptor};
/// use tonic_idempotency::{IdempotencyKey, layer::KeyInterceptor};
///
/// let mut request = Request::new(());
/// request.metadata_mut().insert("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap());
/// let request = KeyInterceptor.call(request).unwrap();
/// assert!(request.extensions().get::<IdempotencyKey>().is_some());
///
/// let mut request = Request::new(());
/// request.metadata_mut().insert("idempotency-key", "order-17".parse().unwrap());
/// assert_eq!(KeyInterceptor.call(request).unwrap_err().code(), tonic::Code::InvalidArgument);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a unit struct, used as a value")]
pub struct KeyInterceptor;

impl Interceptor for KeyInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let values = request.metadata().get_all(IdempotencyKey::HEADER);
        let key = IdempotencyKey::from_values(values.iter().map(|value| value.as_encoded_bytes()));
        if let Some(key) = key.map_err(Rejection::KeyInvalid)? {
            request.extensions_mut().insert(key);
        }
        Ok(request)
    }
}
