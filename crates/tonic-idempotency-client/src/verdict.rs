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
/// `docs/client.md` has the table of all answers for readers, and `clients/verdicts.json` for clients in other languages; tests compare both with
/// this.
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
    /// One was given up without its server's answer. For this time it may still arrive, and run if the key is free. No time is left if it has
    /// arrived by now, and may have waited for the attempt that is judged.
    UnderWay(Duration),
}

/// When a server wants a call to be tried again.
enum Pushback {
    After(Duration),
    /// It says something else than a number of milliseconds.
    Never,
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
        let delay = delay(&status);
        let class = match Reason::of(&status) {
            Some(reason) => reason.class(),
            None => class_of(status.code(), said.outcome(), delay.is_some()),
        };
        let is_retried = matches!(class, ReasonClass::Again | ReasonClass::Running);
        match said.pushback() {
            None => Self::of_class(class, delay, others),
            Some(Pushback::After(delay)) => Self::of_class(class, Some(delay), others),
            Some(Pushback::Never) if is_retried => Self::Unknown,
            Some(Pushback::Never) => Self::of_class(class, None, others),
        }
    }

    fn of_class(class: ReasonClass, delay: Option<Duration>, others: Others) -> Self {
        match (class, others) {
            (ReasonClass::Again, _) => Self::Again(delay),
            (ReasonClass::Running, _) => Self::Running(delay),
            // The key is left to the next attempt that arrives, which may be one that was given up.
            (ReasonClass::FreeKey, Others::UnderWay(left)) => Self::Again(Some(left)),
            (ReasonClass::Final | ReasonClass::FreeKey, _) | (ReasonClass::NotLookedAt, Others::None) => Self::Ended,
            (ReasonClass::NotLookedAt, Others::Over | Others::UnderWay(_)) | (ReasonClass::Unknown, _) => Self::Unknown,
        }
    }
}

/// The class of an error that the layer did not make.
fn class_of(code: Code, outcome: Option<ErrorOutcome>, has_delay: bool) -> ReasonClass {
    match (outcome, code) {
        (Some(ErrorOutcome::Kept), _) => ReasonClass::Final,
        // Of the attempt, or a server's own: the operation's deadline ends the retries.
        (_, Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable) => ReasonClass::Again,
        (_, Code::ResourceExhausted) if has_delay => ReasonClass::Again,
        (Some(ErrorOutcome::Freed), _) => ReasonClass::FreeKey,
        (None, Code::Aborted | Code::Internal | Code::ResourceExhausted | Code::Unknown) => ReasonClass::Unknown,
        (None, _) => ReasonClass::NotLookedAt,
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

    fn pushback(&self) -> Option<Pushback> {
        let text = self.metadata().get(PUSHBACK).or_else(|| self.headers.get(PUSHBACK))?.to_str();
        let milliseconds = text.ok().and_then(|text| text.trim().parse::<u64>().ok());
        Some(milliseconds.map_or(Pushback::Never, |it| Pushback::After(Duration::from_millis(it.min(1000 * LONGEST)))))
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
    use serde::Deserialize;
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::{
        Others::{Over, UnderWay},
        Verdict::{Again, Ended, Running, Unknown},
        *,
    };

    const DOCUMENTED: &str = include_str!("../../../docs/client.md");
    const ROWS: &str = include_str!("../../../clients/verdicts.json");
    const NOW: Verdict = Again(None);
    const OUTCOME: HeaderName = HeaderName::from_static("idempotency-outcome");
    const SECOND: Duration = Duration::from_secs(1);
    const LEFT: Duration = Duration::from_secs(7);
    const LATER: Verdict = Again(Some(LEFT));

    const CODES: [Code; 16] = [
        Code::Aborted,
        Code::AlreadyExists,
        Code::Cancelled,
        Code::DataLoss,
        Code::DeadlineExceeded,
        Code::FailedPrecondition,
        Code::Internal,
        Code::InvalidArgument,
        Code::NotFound,
        Code::OutOfRange,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::Unauthenticated,
        Code::Unavailable,
        Code::Unimplemented,
        Code::Unknown,
    ];

    /// A row of the file: facts of an answer, and its verdicts. The first row of which an answer has all facts counts.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        reason: Option<String>,
        code: Option<String>,
        outcome: Option<String>,
        #[serde(default)]
        retry_info: bool,
        pushback: Option<String>,
        message: Option<bool>,
        no_status: Option<String>,
        only: String,
        after_lost: String,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        domain: String,
        rows: Vec<Row>,
    }

    impl Row {
        /// Returns whether an answer with another row's facts has all of this one's.
        fn fits(&self, other: &Self) -> bool {
            fn has<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
                wanted.is_none() || wanted == found
            }
            has(&self.reason, &other.reason)
                && has(&self.code, &other.code)
                && has(&self.outcome, &other.outcome)
                && (!self.retry_info || other.retry_info)
                && has(&self.pushback, &other.pushback)
                && has(&self.message, &other.message)
                && has(&self.no_status, &other.no_status)
        }

        fn verdicts(&self) -> [&str; 2] {
            [&self.only, &self.after_lost]
        }
    }

    fn rows() -> Vec<Row> {
        let File { domain, rows } = serde_json::from_str(ROWS).expect("the file");
        assert_eq!(domain, tonic_idempotency_wire::DOMAIN);
        rows
    }

    fn name_of(code: Code) -> String {
        format!("{code:?}").chars().fold(String::new(), |name, letter| {
            let gap = if letter.is_uppercase() && !name.is_empty() { "_" } else { "" };
            name + gap + &letter.to_uppercase().to_string()
        })
    }

    /// The word for a verdict, in the file and in the documentation.
    fn word(verdict: Verdict) -> &'static str {
        match verdict {
            LATER => "ended later",
            Again(_) | Verdict::Late => "retry",
            Running(_) => "running",
            Ended => "ended",
            Unknown => "unknown",
        }
    }

    /// Returns the verdicts on an answer to the only attempt, and to one after another that is under way. Checks that it is the same when
    /// that is over, unless it was to be waited for, and that a status in the headers and one in the trailers get the same verdict.
    fn of(status: &Status, outcome: Option<&str>) -> [Verdict; 2] {
        let mut metadata = HeaderMap::new();
        status.add_header(&mut metadata).expect("a status");
        let mut head = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))]);
        head.extend(outcome.map(|outcome| (OUTCOME, outcome.parse().expect("a value"))));
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

    /// Returns the verdicts on an answer that has the facts of a row, or more.
    fn verdicts_on(answer: &Row) -> [&'static str; 2] {
        if answer.message.is_some() || answer.no_status.is_some() {
            let content_type = if matches!(answer.no_status.as_deref(), None | Some("incomplete")) {
                "application/grpc"
            } else {
                "text/html"
            };
            let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            if answer.message.is_some() {
                headers.insert("grpc-status", HeaderValue::from_static("0"));
            }
            let http = answer.no_status.as_deref().and_then(|text| text.parse().ok()).unwrap_or(200);
            let has_message = answer.message.unwrap_or_default();
            return [Others::None, UnderWay(LEFT)].map(|others| word(said(http, &headers, None, has_message, others)));
        }
        let code = answer
            .code
            .as_deref()
            .map_or(Code::Unavailable, |name| *CODES.iter().find(|code| name_of(**code) == name).expect("a code"));
        let mut details = ErrorDetails::new();
        if let Some(reason) = &answer.reason {
            details.set_error_info(reason, tonic_idempotency_wire::DOMAIN, []);
        }
        if answer.retry_info {
            details.set_retry_info(Some(SECOND));
        }
        let mut status = Status::with_error_details(code, "", details);
        if let Some(pushback) = &answer.pushback {
            assert_eq!(pushback, "never");
            status.metadata_mut().insert(PUSHBACK, "-1".parse().expect("metadata"));
        }
        of(&status, answer.outcome.as_deref()).map(word)
    }

    /// Every answer with any of these facts, not only those that a row names.
    #[test]
    fn the_file_says_the_same_of_each_answer() {
        let rows = rows();
        let reasons = Reason::ALL.iter().map(|reason| reason.as_str()).chain(["IDEMPOTENCY_OF_A_LATER_VERSION"]);
        let reasons: Vec<_> = reasons.map(|reason| Some(reason.to_owned())).chain([None]).collect();
        let blank = Row {
            reason: None,
            code: None,
            outcome: None,
            retry_info: false,
            pushback: None,
            message: None,
            no_status: None,
            only: String::new(),
            after_lost: String::new(),
        };
        let mut answers: Vec<_> = rows
            .iter()
            .filter(|row| row.message.is_some() || row.no_status.as_deref().is_some_and(|it| it != "broken"))
            .cloned()
            .collect();
        for reason in &reasons {
            for code in CODES {
                for outcome in [None, Some("freed"), Some("kept"), Some("perhaps")] {
                    for (retry_info, pushback) in
                        [(false, None), (true, None), (false, Some("never")), (true, Some("never"))]
                    {
                        let [outcome, pushback] = [outcome, pushback].map(|text| text.map(str::to_owned));
                        let code = Some(name_of(code));
                        answers.push(Row {
                            reason: reason.clone(),
                            code,
                            outcome,
                            retry_info,
                            pushback,
                            ..blank.clone()
                        });
                    }
                }
            }
        }
        let mut needed = BTreeSet::new();
        for answer in &answers {
            let (index, row) = rows.iter().enumerate().find(|(_, row)| row.fits(answer)).expect("a row");
            needed.insert(index);
            assert_eq!(row.verdicts(), verdicts_on(answer), "{answer:?}");
        }
        let idle: Vec<_> =
            rows.iter().enumerate().filter(|(index, _)| !needed.contains(index)).map(|(_, row)| row).collect();
        assert!(
            matches!(&idle[..], [row] if row.no_status.as_deref() == Some("broken")),
            "no answer needs these: {idle:?}"
        );
        assert_eq!(idle[0].verdicts(), ["retry"; 2]);
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
    fn the_documentation_says_the_same_as_the_file() {
        let rows = rows();
        let plain = |row: &&Row| row.outcome.is_none() && !row.retry_info && row.pushback.is_none();
        let mut named = BTreeSet::new();
        for row in rows.iter().filter(plain) {
            if let Some(name) = row.reason.as_ref().or(row.code.as_ref()).filter(|name| *name != "OK") {
                assert_eq!(documented(name), row.verdicts(), "{name}");
                named.insert(name.clone());
            }
        }
        let documented = DOCUMENTED.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
        let documented: BTreeSet<_> = documented
            .flat_map(|row| row.split('`'))
            .filter(|name| name.starts_with("IDEMPOTENCY_"))
            .map(str::to_owned)
            .collect();
        assert!(documented.is_subset(&named), "only in the documentation: {:?}", documented.difference(&named));
        assert_eq!(named.len(), Reason::ALL.len() + CODES.len());
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
