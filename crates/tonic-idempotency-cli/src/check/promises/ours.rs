//! T: the headers, codes and details of tonic-idempotency, as docs/keys.md has them.

use futures_util::future::join;
use http::HeaderMap;
use tonic::{Code, Status};
use tonic_idempotency::rejection::Reason;
use tonic_types::StatusExt as _;
use uuid::Uuid;

use super::{
    answers::succeeded,
    promise::{Check, Group, Need, Promise},
};
use crate::check::{
    finding::{Checked, Finding, Proof, failed, not_checked},
    operation::Operation,
    options::Level,
    server::Server,
    wire::Answer,
};

pub(super) const GROUP: Group = Group { title: "T: tonic-idempotency", promises: PROMISES };

/// The headers of the layer.
const HEADERS: [&str; 4] = ["idempotency-expires", "idempotency-outcome", "idempotency-status", "idempotent-replayed"];

const fn promise(
    code: &'static str,
    sentence: &'static str,
    reason: &'static str,
    creates: u32,
    check: Check,
) -> Promise {
    Promise { code, sentence, reason, level: Level::TonicIdempotency, needs: &[], calls: 2, creates, check }
}

const PROMISES: &[Promise] = &[
    promise(
        "T1",
        "another message is IDEMPOTENCY_KEY_REUSED",
        "a client ends the operation by this reason",
        1,
        |server| Box::pin(another_message(server)),
    ),
    Promise {
        needs: &[Need::Other],
        ..promise(
            "T2",
            "another procedure is IDEMPOTENCY_KEY_REUSED",
            "a client ends the operation by this reason",
            1,
            |server| Box::pin(another_procedure(server)),
        )
    },
    promise("T3", "two keys are IDEMPOTENCY_KEY_INVALID", "it names the header that is wrong", 0, |server| {
        Box::pin(two_keys(server))
    }),
    Promise {
        needs: &[Need::Slow],
        ..promise(
            "T4",
            "a duplicate is IDEMPOTENCY_IN_PROGRESS, or waits",
            "a client retries by this reason, after the time it names",
            1,
            |server| Box::pin(in_progress(server)),
        )
    },
    promise(
        "T5",
        "an error says whether it frees its key, and does so",
        "the header idempotency-outcome is all that a client has",
        1,
        |server| Box::pin(outcome(server)),
    ),
    promise("T6", "a key in quotes or capitals is replayed", "each form of a UUID is the same key", 1, |server| {
        Box::pin(forms(server))
    }),
    promise("T7", "a call without a key has none of the headers", "it promises nothing", 1, |server| {
        Box::pin(without_key(server))
    }),
];

/// Finds that an answer is a refusal for a reason.
fn is_refusal(answer: &Answer, code: Code, reason: Reason) -> Result<&Status, Finding> {
    match answer.error() {
        Some(status) if status.code() == code && Reason::of(status) == Some(reason) => Ok(status),
        _ => failed(answer.to_string()),
    }
}

/// Finds that a refusal's `ErrorInfo` has such an entry.
fn has_metadata(status: &Status, name: &str, value: &str) -> Checked {
    let info = status.get_details_error_info();
    let found = info.as_ref().and_then(|info| info.metadata.get(name));
    if found.is_some_and(|found| found == value) {
        return Ok(Proof::Answers);
    }
    failed(format!("its ErrorInfo has no {name} {value}"))
}

async fn another_message(server: &Server) -> Checked {
    let operation = server.operation()?;
    succeeded(&server.call(&operation).await)?;
    let other = Operation { key: operation.key.clone(), ..server.operation()? };
    let answer = server.call(&other).await;
    has_metadata(is_refusal(&answer, Code::InvalidArgument, Reason::KeyReused)?, "mismatch", "request")
}

async fn another_procedure(server: &Server) -> Checked {
    let operation = server.operation()?;
    succeeded(&server.call(&operation).await)?;
    let (Some(template), Some(other)) = (&server.other, server.other_of(&operation)?) else {
        return not_checked("needs --other");
    };
    let answer = server.attempt(&other).of(template).send().await;
    has_metadata(is_refusal(&answer, Code::InvalidArgument, Reason::KeyReused)?, "mismatch", "procedure")
}

async fn two_keys(server: &Server) -> Checked {
    let operation = server.operation()?;
    let other = Uuid::new_v4().to_string();
    let answer = server.attempt(&operation).keys([&operation.key, &other]).send().await;
    let status = is_refusal(&answer, Code::InvalidArgument, Reason::KeyInvalid)?;
    let violations = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
    if violations.iter().any(|violation| violation.field == "idempotency-key") {
        return Ok(Proof::Answers);
    }
    failed("its BadRequest does not name the header")
}

async fn in_progress(server: &Server) -> Checked {
    let operation = server.operation()?;
    let (first, meanwhile) = join(server.attempt(&operation).slow().send(), async {
        server.is_in_handler().await;
        server.call(&operation).await
    })
    .await;
    succeeded(&first)?;
    if meanwhile.message().is_some() {
        return Ok(Proof::Answers);
    }
    let status = is_refusal(&meanwhile, Code::Aborted, Reason::InProgress)?;
    if status.get_details_retry_info().is_none() {
        return failed("it has no RetryInfo");
    }
    match meanwhile.header("grpc-retry-pushback-ms") {
        Some(_) => Ok(Proof::Answers),
        None => failed("it has no grpc-retry-pushback-ms"),
    }
}

async fn outcome(server: &Server) -> Checked {
    let operation = server.operation()?;
    let bad = server.attempt(&operation).message(Vec::new()).send().await;
    if bad.error().is_none() {
        return not_checked(format!("needs a method that refuses an empty message: {bad}"));
    }
    let good = server.call(&operation).await;
    match (bad.header("idempotency-outcome"), good.message()) {
        (Some("freed"), Some(_)) | (Some("kept"), None) => Ok(Proof::Answers),
        (said, _) => {
            failed(format!("it says {}; then a good message under its key: {good}", said.unwrap_or("nothing")))
        }
    }
}

async fn forms(server: &Server) -> Checked {
    let operation = server.operation()?;
    succeeded(&server.call(&operation).await)?;
    let other = format!("\"{}\"", operation.key.to_uppercase());
    let again = server.attempt(&operation).keys([&other]).send().await;
    match (again.message(), again.header("idempotent-replayed")) {
        (Some(_), Some("true")) => Ok(Proof::Answers),
        _ => failed(again.to_string()),
    }
}

async fn without_key(server: &Server) -> Checked {
    let operation = server.operation()?;
    let answer = server.attempt(&operation).keys([]).send().await;
    if answer.message().is_none() {
        return not_checked(format!("needs a method that takes calls without keys: {answer}"));
    }
    let has = |headers: &HeaderMap| HEADERS.into_iter().find(|name| headers.contains_key(*name));
    match has(&answer.headers).or_else(|| has(&answer.trailers)) {
        Some(header) => failed(format!("it has {header}")),
        None => Ok(Proof::Answers),
    }
}
