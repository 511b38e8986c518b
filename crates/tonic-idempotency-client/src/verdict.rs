//! Decides, for each answer, whether its operation has ended, is sent again, or is waited for.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_idempotency_wire::{ErrorOutcome, Reason, ReasonClass};
use tonic_types::pb;

/// The trailer by which a server tells when to try again, in milliseconds; a negative number means not by itself
/// ([gRFC A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback)).
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The header or trailer that has the status code. It is looked at first, as most calls succeed.
pub(crate) const STATUS: &str = "grpc-status";

/// The begin of the content types of gRPC.
const GRPC: &[u8] = b"application/grpc";

/// The meaning of an answer for its operation.
///
/// `docs/client.md` has the table of all answers; a test compares it with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same call may succeed later, after this time if the server says so.
    Again(Option<Duration>),
    /// It is the answer of the operation.
    Ended,
    /// The attempt's time is over. The next attempt replaces it, so that no more are under way than before.
    Late,
    /// A call with the key is running, and is answered after this time at the earliest, if the server says so. Asking for it does not count
    /// as an attempt.
    Running(Option<Duration>),
    /// The outcome of the operation is unknown, and an immediate retry does not help.
    Unknown,
}

/// The other attempts of the operation: those before an attempt, and those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// There are none.
    None,
    /// They may have taken effect. None of them can begin to run any more.
    Over,
    /// One was given up without its server's answer. For this time it may still arrive, and run if the key is free.
    UnderWay(Duration),
}

/// The parts of an answer that its verdict depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) http: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) trailers: Option<&'a HeaderMap>,
    /// Whether there is a message, with its head.
    pub(crate) has_message: bool,
}

impl Verdict {
    /// The verdict on an answer.
    pub(crate) fn of(said: Said<'_>, others: Others) -> Self {
        let metadata = said.metadata();
        let is_grpc = match said.headers.get(CONTENT_TYPE) {
            Some(content_type) => content_type.as_bytes().starts_with(GRPC),
            // A service in the same process may leave it out.
            None => metadata.contains_key(STATUS),
        };
        if said.http != StatusCode::OK || !is_grpc {
            return match said.http {
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => Self::Again(None),
                _ => Self::Unknown,
            };
        }
        if metadata.get(STATUS).is_some_and(|status| status == "0") {
            return if said.has_message { Self::Ended } else { Self::Unknown };
        }
        let Some(status) = Status::from_header_map(metadata) else { return Self::Again(None) };
        let verdict = match Reason::of(&status) {
            Some(reason) => Self::of_refusal(reason, &status, others),
            None => Self::of_error(said.outcome(), &status, others),
        };
        let pushback = metadata.get(PUSHBACK).or_else(|| said.headers.get(PUSHBACK));
        let Some(pushback) = pushback else { return verdict };
        let milliseconds = pushback.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok());
        let after = milliseconds.map(|it| Duration::from_millis(it.min(1000 * LONGEST)));
        match (verdict, after) {
            (Self::Again(_), Some(_)) => Self::Again(after),
            (Self::Running(_), Some(_)) => Self::Running(after),
            // A server that says something else than a number of milliseconds means that it is not to be tried again, too.
            (Self::Again(_) | Self::Running(_), None) => Self::Unknown,
            (verdict, _) => verdict,
        }
    }

    /// The verdict on a refusal of the layer.
    fn of_refusal(reason: Reason, status: &Status, others: Others) -> Self {
        match reason.class() {
            ReasonClass::Again => Self::Again(delay(status)),
            ReasonClass::FreeKey => Self::of_a_free_key(others),
            ReasonClass::Final => Self::Ended,
            ReasonClass::NotLookedAt => match others {
                Others::None => Self::Ended,
                Others::Over | Others::UnderWay(_) => Self::Unknown,
            },
            ReasonClass::Running => Self::Running(delay(status)),
            ReasonClass::Unknown => Self::Unknown,
        }
    }

    /// The verdict on an error that is no refusal of the layer.
    fn of_error(outcome: Option<ErrorOutcome>, status: &Status, others: Others) -> Self {
        let again = match status.code() {
            Code::Unavailable => Some(delay(status)),
            Code::ResourceExhausted => delay(status).map(Some),
            // Of the attempt, or a server's own: the operation's deadline ends the retries.
            Code::Cancelled | Code::DeadlineExceeded => Some(None),
            _ => None,
        };
        match (outcome, again) {
            (Some(ErrorOutcome::Kept), _) => Self::Ended,
            (Some(ErrorOutcome::Freed), None) => Self::of_a_free_key(others),
            (_, Some(delay)) => Self::Again(delay),
            (None, None) => match status.code() {
                Code::Aborted | Code::Internal | Code::ResourceExhausted | Code::Unknown => Self::Unknown,
                _ if others != Others::None => Self::Unknown,
                _ => Self::Ended,
            },
        }
    }

    /// The verdict on a failure that leaves the key to the next attempt that arrives, which may be one that was given up.
    fn of_a_free_key(others: Others) -> Self {
        match others {
            Others::UnderWay(left) => Self::Again(Some(left)),
            Others::None | Others::Over => Self::Ended,
        }
    }
}

impl Said<'_> {
    /// Whether the layer has answered.
    pub(crate) fn is_the_layers(&self) -> bool {
        self.outcome().is_some() || self.reason().is_some()
    }

    /// Whether it is an error of a layer that protects the procedure.
    pub(crate) fn is_of_a_protected_call(&self) -> bool {
        self.outcome().is_some() || self.reason().is_some_and(|reason| reason != Reason::KeyUnsupported)
    }

    fn reason(&self) -> Option<Reason> {
        Reason::of(&Status::from_header_map(self.metadata())?)
    }

    fn outcome(&self) -> Option<ErrorOutcome> {
        ErrorOutcome::of(self.headers).or_else(|| ErrorOutcome::of(self.metadata()))
    }

    /// The part with the status: without a body, the headers have it.
    fn metadata(&self) -> &HeaderMap {
        self.trailers.unwrap_or(self.headers)
    }
}

/// The longest delay that a server's word is taken for, in seconds.
const LONGEST: u64 = 3600;

/// Returns the delay that a status asks for. A server may say any number.
fn delay(status: &Status) -> Option<Duration> {
    let details = pb::Status::decode(status.details()).ok()?.details;
    let info = details.iter().find(|detail| detail.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = pb::RetryInfo::decode(&*info.value).ok()?.retry_delay?;
    let (seconds, nanoseconds) = (u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?);
    Some(Duration::from_secs(seconds.min(LONGEST)) + Duration::from_nanos(nanoseconds.into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::{HeaderName, HeaderValue};
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::{
        Others::{Over, UnderWay},
        Verdict::{Again, Ended, Running, Unknown},
        *,
    };

    const DOCUMENTED: &str = include_str!("../../../docs/client.md");
    const NOW: Verdict = Again(None);
    const OUTCOME: HeaderName = HeaderName::from_static("idempotency-outcome");
    const SECOND: Duration = Duration::from_secs(1);
    const LEFT: Duration = Duration::from_secs(7);
    const LATER: Verdict = Again(Some(LEFT));

    /// Returns the verdicts on an answer to the only attempt, and to one after another that is under way. Checks that it is the same when
    /// that is over, unless it was to be waited for, and that a status in the headers and one in the trailers get the same verdict.
    fn of(status: &Status, outcome: Option<&'static str>) -> [Verdict; 2] {
        let mut metadata = HeaderMap::new();
        status.add_header(&mut metadata).expect("a status");
        let mut head = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))]);
        head.extend(outcome.map(|outcome| (OUTCOME, HeaderValue::from_static(outcome))));
        let mut all = head.clone();
        all.extend(metadata.clone());
        let others = [Others::None, UnderWay(LEFT), Over];
        let [only, under_way, over] = others.map(|others| said(200, &all, None, false, others));
        let in_trailers = others.map(|others| said(200, &head, Some(&metadata), false, others));
        assert_eq!([only, under_way, over], in_trailers, "{status:?}");
        assert_eq!(over, if under_way == LATER { Ended } else { under_way }, "{status:?}");
        [only, under_way]
    }

    fn said(
        http: u16,
        headers: &HeaderMap,
        trailers: Option<&HeaderMap>,
        has_message: bool,
        others: Others,
    ) -> Verdict {
        let http = StatusCode::from_u16(http).expect("a status");
        Verdict::of(Said { http, headers, trailers, has_message }, others)
    }

    fn error(code: Code) -> Status {
        Status::new(code, "")
    }

    fn refusal(reason: &str, code: Code) -> Status {
        let details = ErrorDetails::with_error_info(reason, tonic_idempotency_wire::DOMAIN, []);
        Status::with_error_details(code, "", details)
    }

    /// The codes, and what an error means of which the layer says nothing, that is freed, and that is kept.
    const CODES: [(Code, [[Verdict; 2]; 3]); 16] = [
        (Code::Aborted, [[Unknown; 2], [Ended, LATER], [Ended; 2]]),
        (Code::AlreadyExists, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::Cancelled, [[NOW; 2], [NOW; 2], [Ended; 2]]),
        (Code::DataLoss, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::DeadlineExceeded, [[NOW; 2], [NOW; 2], [Ended; 2]]),
        (Code::FailedPrecondition, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::Internal, [[Unknown; 2], [Ended, LATER], [Ended; 2]]),
        (Code::InvalidArgument, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::NotFound, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::OutOfRange, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::PermissionDenied, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::ResourceExhausted, [[Unknown; 2], [Ended, LATER], [Ended; 2]]),
        (Code::Unauthenticated, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::Unavailable, [[NOW; 2], [NOW; 2], [Ended; 2]]),
        (Code::Unimplemented, [[Ended, Unknown], [Ended, LATER], [Ended; 2]]),
        (Code::Unknown, [[Unknown; 2], [Ended, LATER], [Ended; 2]]),
    ];

    const REASONS: [(Reason, [Verdict; 2]); 22] = [
        (Reason::CallerInvalid, [Ended, Unknown]),
        (Reason::Conflict, [NOW; 2]),
        (Reason::HandlerTimeout, [NOW; 2]),
        (Reason::InProgress, [Running(None); 2]),
        (Reason::KeyExpired, [Ended, Unknown]),
        (Reason::KeyInvalid, [Ended, Unknown]),
        (Reason::KeyRequired, [Ended, Unknown]),
        (Reason::KeyReused, [Ended; 2]),
        (Reason::KeyUnsupported, [Ended, Unknown]),
        (Reason::NoScope, [Ended, Unknown]),
        (Reason::NoUser, [Ended, Unknown]),
        (Reason::NotCommitted, [Ended, LATER]),
        (Reason::NotStored, [Ended; 2]),
        (Reason::OutcomeUnknown, [Unknown; 2]),
        (Reason::Overloaded, [NOW; 2]),
        (Reason::RequestMalformed, [Ended, Unknown]),
        (Reason::RequestTimeout, [NOW; 2]),
        (Reason::RequestTooLarge, [Ended, Unknown]),
        (Reason::ShuttingDown, [NOW; 2]),
        (Reason::StoreFailed, [Ended, Unknown]),
        (Reason::StoreUnavailable, [NOW; 2]),
        (Reason::TooManyRecords, [Ended, Unknown]),
    ];

    /// The documentation's word for a verdict.
    fn word(verdict: Verdict) -> &'static str {
        match verdict {
            LATER => "ended later",
            Again(_) | Running(_) | Verdict::Late => "retry",
            Ended => "ended",
            Unknown => "unknown",
        }
    }

    /// Returns the verdicts that the table in the documentation gives for a reason or a code.
    fn documented(name: &str) -> [&'static str; 2] {
        let name = format!("`{name}`");
        let rows = DOCUMENTED.lines().filter(|line| line.starts_with("| ") && line.contains(&name));
        let rows: Vec<Vec<_>> = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
        let [row] = &rows[..] else { panic!("{name} has one row, and not {rows:?}") };
        [row[1], row[2]]
    }

    #[test]
    fn the_matrix_and_the_documentation_have_each_reason() {
        let all: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        let judged: BTreeSet<_> = REASONS.iter().map(|(reason, _)| reason.as_str()).collect();
        let rows = DOCUMENTED.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
        let named: BTreeSet<_> =
            rows.flat_map(|row| row.split('`')).filter(|name| name.starts_with("IDEMPOTENCY_")).collect();
        for found in [judged, named] {
            let apart: Vec<_> = found.symmetric_difference(&all).collect();
            assert!(apart.is_empty(), "on one side only: {apart:?}");
        }
    }

    #[test]
    fn the_documentation_says_the_same() {
        for (reason, verdicts) in REASONS {
            assert_eq!(documented(reason.as_str()), verdicts.map(word), "{reason}");
        }
        for (code, [verdicts, ..]) in CODES {
            let name = format!("{code:?}").chars().fold(String::new(), |name, letter| {
                let gap = if letter.is_uppercase() && !name.is_empty() { "_" } else { "" };
                name + gap + &letter.to_uppercase().to_string()
            });
            assert_eq!(documented(&name), verdicts.map(word), "{name}");
        }
    }

    #[test]
    fn full_matrix_of_errors() {
        for (code, verdicts) in CODES {
            for status in [error(code), refusal("IDEMPOTENCY_OF_A_LATER_VERSION", code)] {
                let found = [None, Some("freed"), Some("kept")].map(|outcome| of(&status, outcome));
                assert_eq!(found, verdicts, "{status:?}");
            }
            assert_eq!(of(&error(code), Some("perhaps")), verdicts[0], "{code:?}");
        }
        for (reason, verdicts) in REASONS {
            for outcome in [None, Some("freed"), Some("kept")] {
                let status = refusal(reason.as_str(), Code::Unavailable);
                assert_eq!(of(&status, outcome), verdicts, "{reason} {outcome:?}");
            }
        }
    }

    /// HTTP status, content type, where `grpc-status: 0` is, and whether there is a message.
    #[test]
    fn full_matrix_of_answers_without_an_error() {
        let ok = HeaderMap::from_iter([("grpc-status".parse().expect("a name"), HeaderValue::from_static("0"))]);
        for http in [200, 204, 301, 400, 401, 403, 404, 408, 429, 500, 501, 502, 503, 504, 520] {
            for content_type in [
                None,
                Some("application/grpc"),
                Some("application/grpc+proto"),
                Some("text/html"),
                Some("application/json"),
            ] {
                for place in ["head", "trailers", "nowhere"] {
                    for (has_message, others) in
                        [(false, Others::None), (false, Over), (true, Others::None), (true, UnderWay(LEFT))]
                    {
                        let mut headers = HeaderMap::new();
                        headers.extend(content_type.map(|it| (CONTENT_TYPE, HeaderValue::from_static(it))));
                        if place == "head" {
                            headers.extend(ok.clone());
                        }
                        let found = said(http, &headers, (place == "trailers").then_some(&ok), has_message, others);
                        let is_grpc = content_type.map_or(place != "nowhere", |it| it.starts_with("application/grpc"));
                        let expected = match (http, is_grpc, place) {
                            (200, true, "nowhere") => NOW,
                            (200, true, _) => {
                                if has_message {
                                    Ended
                                } else {
                                    Unknown
                                }
                            }
                            (429 | 502 | 503 | 504, ..) => NOW,
                            _ => Unknown,
                        };
                        assert_eq!(found, expected, "{http} {content_type:?} {place} {has_message} {others:?}");
                        assert!(found != Ended || has_message && place != "nowhere");
                    }
                }
            }
        }
    }

    #[test]
    fn a_server_says_when_to_try_again_with_any_number() {
        let delayed = |code, delay| Status::with_error_details(code, "", ErrorDetails::with_retry_info(delay));
        for code in [Code::ResourceExhausted, Code::Unavailable] {
            assert_eq!(of(&delayed(code, Some(SECOND)), None), [Again(Some(SECOND)); 2], "{code:?}");
        }
        let with = |seconds, nanos| {
            let retry_delay = Some(prost_types::Duration { seconds, nanos });
            let info = pb::RetryInfo { retry_delay }.encode_to_vec();
            let info =
                prost_types::Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(), value: info };
            let details = pb::Status { code: 14, message: String::new(), details: vec![info] }.encode_to_vec();
            of(&Status::with_details(Code::Unavailable, "", details.into()), None)[0]
        };
        assert_eq!(with(1, 0), Again(Some(SECOND)));
        for (seconds, nanos) in [(i64::MIN, 0), (i64::MIN, i32::MIN), (-1, 0), (1, i32::MIN)] {
            assert_eq!(with(seconds, nanos), NOW, "{seconds} {nanos}");
        }
        assert!(matches!(with(i64::MAX, i32::MAX), Again(Some(delay)) if delay < SECOND * 3610));
    }

    #[test]
    fn a_pushback_that_says_never_ends_the_attempts_and_not_the_operation() {
        let pushed = |code, pushback| {
            let mut status = error(code);
            status.metadata_mut().insert(
                PUSHBACK,
                HeaderValue::from_static(pushback).to_str().expect("text").parse().expect("metadata"),
            );
            of(&status, None)[0]
        };
        assert_eq!(pushed(Code::Unavailable, "1000"), Again(Some(SECOND)));
        assert_eq!(pushed(Code::Unavailable, "0"), Again(Some(Duration::ZERO)));
        for never in ["-1", "soon", "", "99999999999999999999999"] {
            assert_eq!(pushed(Code::Unavailable, never), Unknown, "{never:?}");
        }
        assert_eq!(pushed(Code::NotFound, "1000"), Ended);
    }
}
