//! How a response came about.

use http::Extensions;

/// How a response came about: in how many attempts, and whether an earlier one had succeeded.
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
    /// The number of attempts, with the one that was answered. 1 if the first one was.
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
}
