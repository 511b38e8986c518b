//! The interceptor that parses keys for handlers without the layer.

use tonic::{Request, Status, service::Interceptor};

use crate::{
    key::{IdempotencyKey, KeyFormat},
    rejection::Rejection,
};

/// Parses the key of a request into its extensions, so that the handler can read it, and refuses a malformed key.
///
/// The layer does the same for the procedures that it protects, and does not need the interceptor. Use it for handlers
/// without the layer, or of procedures that are not opted in.
///
/// ```
/// use tonic::{Request, service::Interceptor};
/// use tonic_idempotency::{IdempotencyKey, layer::KeyInterceptor, policy::KeyFormat};
///
/// let mut request = Request::new(());
/// request.metadata_mut().insert("idempotency-key", "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap());
/// let request = KeyInterceptor::default().call(request).unwrap();
/// assert!(request.extensions().get::<IdempotencyKey>().is_some());
///
/// let mut request = Request::new(());
/// request.metadata_mut().insert("idempotency-key", "order-17".parse().unwrap());
/// assert!(KeyInterceptor::new(KeyFormat::Any).call(request).is_ok());
///
/// let mut request = Request::new(());
/// request.metadata_mut().insert("idempotency-key", "order-17".parse().unwrap());
/// assert_eq!(KeyInterceptor::default().call(request).unwrap_err().code(), tonic::Code::InvalidArgument);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyInterceptor {
    format: KeyFormat,
}

impl KeyInterceptor {
    /// Creates an interceptor that takes keys of this format. Defaults to UUIDs.
    pub fn new(format: KeyFormat) -> Self {
        Self { format }
    }
}

impl Interceptor for KeyInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let values = request.metadata().get_all(IdempotencyKey::HEADER);
        let key = IdempotencyKey::from_values(values.iter().map(|value| value.as_encoded_bytes()), self.format);
        if let Some(key) = key.map_err(Rejection::KeyInvalid)? {
            request.extensions_mut().insert(key);
        }
        Ok(request)
    }
}
