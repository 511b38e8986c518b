//! A refusal for each reason.

use std::time::Duration;

use crate::{
    grpc::WireError,
    key::InvalidKey,
    rejection::{Exceeded, LimitKind, MalformedRequest, Mismatch, Party, Reason, Rejection},
};

/// Returns a refusal for this reason. A call that is refused because the first call is in progress may be tried again at once.
pub(super) fn refusal(reason: Reason) -> Rejection {
    let of_reason = |refusal: &Rejection| refusal.reason() == reason;
    all().into_iter().find(of_reason).expect("`all` has one for each reason")
}

fn all() -> [Rejection; 21] {
    [
        Rejection::CallerInvalid,
        Rejection::Conflict,
        Rejection::InProgress { lease_left: Duration::ZERO },
        Rejection::KeyExpired,
        Rejection::KeyInvalid(InvalidKey::NotAUuid),
        Rejection::KeyRequired,
        Rejection::KeyReused(Mismatch::Request),
        Rejection::KeyUnsupported,
        Rejection::NotCommitted,
        Rejection::NotStored { resource: None },
        Rejection::NoScope,
        Rejection::NoUser,
        Rejection::OutcomeUnknown,
        Rejection::Overloaded,
        Rejection::RequestMalformed(MalformedRequest::Framing(WireError::Truncated)),
        Rejection::RequestTimeout { limit: Duration::from_secs(30) },
        Rejection::RequestTooLarge { limit: 4 << 20 },
        Rejection::ShuttingDown,
        Rejection::StoreFailed,
        Rejection::StoreUnavailable,
        Rejection::Limit(Exceeded { limit: LimitKind::Records, of: Party::Caller }),
    ]
}
