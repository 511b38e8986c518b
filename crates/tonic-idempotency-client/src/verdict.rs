//! What an answer means for the next attempt.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tonic::{Code, Status};
use tonic_idempotency_wire::Reason;
use tonic_types::StatusExt as _;

/// The trailer by which a server tells when to try again, in milliseconds; a negative number means never
/// ([gRFC A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback)).
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The header or trailer that has the status code. It is looked at first, as most calls succeed.
const STATUS: &str = "grpc-status";

/// What an answer means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same call may succeed later, after this time if the server says so.
    Again(Option<Duration>),
    /// It is the answer.
    Final,
}

impl Verdict {
    /// The verdict on a response: its status line, and the headers or trailers that have its gRPC status.
    pub(crate) fn of(http: StatusCode, trailers: &HeaderMap) -> Self {
        if let Some(pushback) = trailers.get(PUSHBACK) {
            let milliseconds = pushback.to_str().ok().and_then(|text| text.trim().parse().ok());
            // A server that says something else than a number of milliseconds means never, too.
            let Some(milliseconds) = milliseconds else { return Self::Final };
            return match Self::of_status(http, trailers) {
                Self::Again(_) => Self::Again(Some(Duration::from_millis(milliseconds))),
                Self::Final => Self::Final,
            };
        }
        Self::of_status(http, trailers)
    }

    fn of_status(http: StatusCode, trailers: &HeaderMap) -> Self {
        if trailers.get(STATUS).is_some_and(|status| status == "0") {
            return Self::Final;
        }
        let Some(status) = Status::from_header_map(trailers) else {
            return match http {
                // The stream was reset: the answer is lost.
                StatusCode::OK => Self::Again(None),
                // A proxy's, which gRPC maps to UNAVAILABLE.
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => Self::Again(None),
                _ => Self::Final,
            };
        };
        let delay = || status.get_details_retry_info().and_then(|info| info.retry_delay);
        match (status.code(), Reason::of(&status)) {
            (_, Some(Reason::Conflict | Reason::InProgress | Reason::Overloaded | Reason::ShuttingDown)) => {
                Self::Again(delay())
            }
            (_, Some(Reason::StoreUnavailable | Reason::RequestTimeout)) => Self::Again(delay()),
            (_, Some(_)) => Self::Final,
            (Code::Unavailable, None) => Self::Again(delay()),
            (Code::ResourceExhausted, None) if delay().is_some() => Self::Again(delay()),
            // Of the attempt: the operation's own ends the retries.
            (Code::DeadlineExceeded, None) => Self::Again(None),
            _ => Self::Final,
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    fn trailers(status: &Status) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers).expect("a status");
        trailers
    }

    fn of(code: Code, details: ErrorDetails) -> Verdict {
        Verdict::of(StatusCode::OK, &trailers(&Status::with_error_details(code, "", details)))
    }

    fn reason(reason: Reason) -> ErrorDetails {
        ErrorDetails::with_error_info(reason.as_str(), tonic_idempotency_wire::DOMAIN, [])
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn of_a_server_that_is_away_or_busy_is_to_try_again() {
        assert_eq!(of(Code::Unavailable, ErrorDetails::new()), Verdict::Again(None));
        assert_eq!(of(Code::DeadlineExceeded, ErrorDetails::new()), Verdict::Again(None));
        let busy = ErrorDetails::with_retry_info(Some(SECOND));
        assert_eq!(of(Code::ResourceExhausted, busy.clone()), Verdict::Again(Some(SECOND)));
        assert_eq!(of(Code::Unavailable, busy), Verdict::Again(Some(SECOND)));
        for http in [502, 503, 504, 429, 200] {
            let http = StatusCode::from_u16(http).expect("a status");
            assert_eq!(Verdict::of(http, &HeaderMap::new()), Verdict::Again(None), "{http}");
        }
    }

    #[test]
    fn of_each_reason_is_to_try_again_only_if_the_same_call_may_succeed() {
        for again in [
            Reason::Conflict,
            Reason::InProgress,
            Reason::Overloaded,
            Reason::RequestTimeout,
            Reason::ShuttingDown,
            Reason::StoreUnavailable,
        ] {
            assert_eq!(of(Code::Aborted, reason(again)), Verdict::Again(None), "{again}");
            let mut delayed = reason(again);
            delayed.set_retry_info(Some(SECOND));
            assert_eq!(of(Code::Aborted, delayed), Verdict::Again(Some(SECOND)), "{again}");
        }
        for never in [
            Reason::CallerInvalid,
            Reason::KeyExpired,
            Reason::KeyInvalid,
            Reason::KeyRequired,
            Reason::KeyReused,
            Reason::KeyUnsupported,
            Reason::NotCommitted,
            Reason::NotStored,
            Reason::NoScope,
            Reason::NoUser,
            Reason::OutcomeUnknown,
            Reason::RequestMalformed,
            Reason::RequestTooLarge,
            Reason::StoreFailed,
            Reason::TooManyRecords,
        ] {
            assert_eq!(of(Code::Unavailable, reason(never)), Verdict::Final, "{never}");
        }
    }

    #[test]
    fn of_any_other_answer_is_that_it_is_the_answer() {
        for code in [Code::Ok, Code::Aborted, Code::Internal, Code::NotFound, Code::ResourceExhausted, Code::Unknown] {
            assert_eq!(of(code, ErrorDetails::new()), Verdict::Final, "{code:?}");
        }
        assert_eq!(Verdict::of(StatusCode::UNAUTHORIZED, &HeaderMap::new()), Verdict::Final);
    }

    #[test]
    fn obeys_the_pushback_of_a_server() {
        let pushed = |code, pushback| {
            let mut trailers = trailers(&Status::new(code, ""));
            trailers.insert(PUSHBACK, http::HeaderValue::from_static(pushback));
            Verdict::of(StatusCode::OK, &trailers)
        };
        assert_eq!(pushed(Code::Unavailable, "1000"), Verdict::Again(Some(SECOND)));
        assert_eq!(pushed(Code::Unavailable, "0"), Verdict::Again(Some(Duration::ZERO)));
        assert_eq!(pushed(Code::Unavailable, "-1"), Verdict::Final);
        assert_eq!(pushed(Code::Unavailable, "soon"), Verdict::Final);
        assert_eq!(pushed(Code::NotFound, "1000"), Verdict::Final);
    }
}
