//! Tells how a response came about: its attempts, and whether it is a replay.

use std::time::Duration;

use http::Extensions;
use tonic::metadata::MetadataMap;
use tonic_idempotency_wire::headers;

/// How a response came about: the number of attempts, and whether it is a replay.
///
/// ```
/// use tonic_idempotency_client::Delivery;
///
/// # fn look(response: &tonic::Response<()>) {
/// let Delivery { attempts, replayed, .. } = Delivery::of(response.extensions());
/// # let _ = (attempts, replayed);
/// # }
/// # look(&tonic::Response::new(()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The number of attempts, including the one that was answered.
    pub attempts: u32,
    /// Whether the server has replayed the response of an earlier attempt.
    pub replayed: bool,
}

impl Delivery {
    pub(crate) const AT_ONCE: Self = Self { attempts: 1, replayed: false };

    /// Reads the extensions of a response.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self::AT_ONCE)
    }

    /// Reads the metadata of a response, or of an error: how long the server still keeps the record of the call, in whole seconds.
    /// Until then the same call with the same key gets the same answer. `None` if the server keeps none, or does not say.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tonic_idempotency_client::Delivery;
    ///
    /// # let mut response = tonic::Response::new(());
    /// # response.metadata_mut().insert("idempotency-expires", "86399".parse().unwrap());
    /// let left = Delivery::expires_in(response.metadata());
    /// assert_eq!(left, Some(Duration::from_secs(86399)));
    /// ```
    pub fn expires_in(metadata: &MetadataMap) -> Option<Duration> {
        metadata.get(headers::EXPIRES)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
    }
}
