//! The headers of requests.

/// The request header by which the simulated clients say who they are.
pub(crate) const USER: &str = "user";

/// The header with the number of the attempt: only for the observer.
pub(crate) const ATTEMPT: &str = "attempt";

/// The header with the number of the call, which its server adds: only for the observer.
pub(crate) const CALL: &str = "call";

/// The header with the tenant.
pub(crate) const SCOPE: &str = "scope";

/// The header of a message that is delivered to the consumer, and is no call.
pub(crate) const DELIVERED: &str = "delivered";
