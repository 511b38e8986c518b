//! R: a replay is the first answer.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use tokio::time::sleep;

use super::{
    answers::succeeded,
    promise::{Group, Need, Promise},
};
use crate::check::{
    finding::{Checked, Finding, Proof, failed, not_checked},
    operation::Operation,
    options::Level,
    server::Server,
    wire::Answer,
};

pub(super) const GROUP: Group = Group { title: "R: replays", promises: PROMISES };

/// How long the work behind a resource may take, for the status to be seen to turn.
const WORK: Duration = Duration::from_secs(10);

/// The time between two looks at the status.
const LOOK: Duration = Duration::from_millis(250);

/// The longest protection that is waited for.
const LONGEST: Duration = Duration::from_secs(30);

/// How long before the end of the protection a call has to be replayed: its number is in whole seconds.
const BEFORE: Duration = Duration::from_millis(1500);

const PROMISES: &[Promise] = &[
    Promise {
        code: "R1",
        sentence: "a replay has the first response's bytes",
        reason: "a client must not learn another id, nor another state, from a retry",
        level: Level::Core,
        needs: &[],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(bytes(server)),
    },
    Promise {
        code: "R2",
        sentence: "a replay has the first answer's headers",
        reason: "what a handler tells in a header is part of its answer",
        level: Level::Core,
        needs: &[],
        calls: 3,
        creates: 1,
        check: |server| Box::pin(metadata(server, |answer| &answer.headers)),
    },
    Promise {
        code: "R3",
        sentence: "a replay has the first answer's trailers",
        reason: "what a handler tells in a trailer is part of its answer",
        level: Level::Core,
        needs: &[],
        calls: 3,
        creates: 1,
        check: |server| Box::pin(metadata(server, |answer| &answer.trailers)),
    },
    Promise {
        code: "R4",
        sentence: "an error is kept or freed, and stays so",
        reason: "a client has to know whether a retry runs",
        level: Level::Core,
        needs: &[],
        calls: 4,
        creates: 1,
        check: |server| Box::pin(error(server)),
    },
    Promise {
        code: "R5",
        sentence: "the status turns to completed, and not back",
        reason: "a client waits for the work behind what it created",
        level: Level::Core,
        needs: &[],
        calls: 5,
        creates: 1,
        check: |server| Box::pin(status(server)),
    },
    Promise {
        code: "R6",
        sentence: "replays are marked, and only they",
        reason: "a client that counts creations must not count a replay",
        level: Level::Core,
        needs: &[],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(marked(server)),
    },
    Promise {
        code: "R7",
        sentence: "the protection that is announced does not grow",
        reason: "a replay that promises more than its record has is believed",
        level: Level::Core,
        needs: &[],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(expires(server)),
    },
    Promise {
        code: "R8",
        sentence: "a key protects as long as is announced",
        reason: "until then a client retries without a second thought",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(protects(server)),
    },
];

async fn first_and_replay(server: &Server) -> Result<(Operation, Answer, Answer), Finding> {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let again = server.call(&operation).await;
    if again.message().is_none() {
        return failed(format!("the retry: {again}"));
    }
    Ok((operation, first, again))
}

async fn bytes(server: &Server) -> Checked {
    let (_, first, again) = first_and_replay(server).await?;
    let (one, other) = (first.message().cloned().unwrap_or_default(), again.message().cloned().unwrap_or_default());
    if one == other { Ok(Proof::Answers) } else { failed(difference(&first, &again, &one, &other)) }
}

fn difference(first: &Answer, again: &Answer, one: &Bytes, other: &Bytes) -> String {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    format!("first {first}; then {again}; they differ from byte {at}")
}

/// Finds that metadata is the same in two replays as in the first answer. What differs between the replays belongs to a call.
async fn metadata(server: &Server, of: fn(&Answer) -> &HeaderMap) -> Checked {
    let (operation, first, again) = first_and_replay(server).await?;
    let third = server.call(&operation).await;
    let [first, again, third] = [&first, &again, &third].map(of);
    let values = |of: &HeaderMap, name: &HeaderName| of.get_all(name).iter().cloned().collect::<Vec<_>>();
    let names: BTreeSet<_> = first.keys().map(HeaderName::as_str).filter(|name| !is_of_call(name)).collect();
    let names: Vec<_> = names.into_iter().filter_map(|name| name.parse::<HeaderName>().ok()).collect();
    let lost = names.iter().filter(|name| values(again, name) == values(third, name));
    let lost: Vec<_> = lost.filter(|name| values(first, name) != values(again, name)).map(HeaderName::as_str).collect();
    match (names.is_empty(), lost.is_empty()) {
        (true, _) => not_checked("needs a response with metadata of the handler's"),
        (false, true) => Ok(Proof::Answers),
        (false, false) => failed(format!("it lacks {}", lost.join(", "))),
    }
}

/// Returns whether a header belongs to a call, a protocol or the first caller alone, so that a replay need not have it.
fn is_of_call(name: &str) -> bool {
    let prefixes = [
        "access-control-",
        "connect-",
        "content-",
        "grpc-",
        "idempotency-",
        "idempotent-",
        "server",
        "set-cookie",
        "trace",
    ];
    let names = ["age", "alt-svc", "cache-control", "date", "vary", "via", "x-request-id"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.contains(&name)
}

/// Sends a message that the handler refuses, twice, and then a good one under its key, twice.
async fn error(server: &Server) -> Checked {
    let operation = server.operation()?;
    let bad = async || server.attempt(&operation).message(Bytes::new()).send().await;
    let first = bad().await;
    let Some(status) = first.error() else {
        return not_checked(format!("needs a method that refuses an empty message: {first}"));
    };
    let again = bad().await;
    match again.error() {
        Some(other) if other.code() == status.code() => {}
        _ => return failed(format!("first {first}; then {again}")),
    }
    let good = server.call(&operation).await;
    let last = server.call(&operation).await;
    match (good.message(), last.message()) {
        (Some(_), Some(_)) => {
            server.has_one_effect(&operation, &[&good, &last]).await.or_else(|finding| match finding {
                Finding::NotChecked(_) => Ok(Proof::Answers),
                finding => Err(finding),
            })
        }
        (None, None) => Ok(Proof::Answers),
        _ => failed(format!("after an error, a good message under its key: first {good}; then {last}")),
    }
}

async fn status(server: &Server) -> Checked {
    let (operation, first, mut answer) = first_and_replay(server).await?;
    let mut last = status_of(&first)?;
    let begun = Instant::now();
    loop {
        let status = status_of(&answer)?;
        match (last.as_str(), status.as_str()) {
            ("processing", _) | ("completed", "completed") | ("failed", "failed") => last = status,
            _ => return failed(format!("first {last}, then {status}")),
        }
        if last != "processing" {
            let after = status_of(&server.call(&operation).await)?;
            return if after == last { Ok(Proof::Answers) } else { failed(format!("first {last}, then {after}")) };
        }
        if begun.elapsed() > WORK {
            return failed(format!("processing after {} s", WORK.as_secs()));
        }
        sleep(LOOK).await;
        answer = server.call(&operation).await;
    }
}

fn status_of(answer: &Answer) -> Result<String, Finding> {
    promised(answer, "idempotency-status").map(str::to_owned)
}

/// Returns the value of a header that a server need not send.
fn promised<'a>(answer: &'a Answer, name: &str) -> Result<&'a str, Finding> {
    answer.header(name).ok_or_else(|| Finding::NotPromised(format!("no {name}")))
}

async fn marked(server: &Server) -> Checked {
    let (_, first, again) = first_and_replay(server).await?;
    let marks = promised(&again, "idempotent-replayed")?;
    match (first.header("idempotent-replayed"), marks) {
        (None, "true") => Ok(Proof::Answers),
        (first, marks) => failed(format!("the first answer says {}, the replay {marks}", first.unwrap_or("nothing"))),
    }
}

fn expires_of(answer: &Answer) -> Result<Duration, Finding> {
    let seconds = promised(answer, "idempotency-expires")?;
    match seconds.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => failed(format!("idempotency-expires: {seconds}")),
    }
}

async fn expires(server: &Server) -> Checked {
    let (_, first, again) = first_and_replay(server).await?;
    let [first, again] = [expires_of(&first)?, expires_of(&again)?];
    if again <= first {
        return Ok(Proof::Answers);
    }
    failed(format!("first {} s, then {} s", first.as_secs(), again.as_secs()))
}

async fn protects(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let time = expires_of(&first)?;
    if time > LONGEST {
        return not_checked(format!(
            "needs an idempotency-expires of at most {} s: it is {}",
            LONGEST.as_secs(),
            time.as_secs()
        ));
    }
    sleep(time.saturating_sub(BEFORE)).await;
    let again = server.call(&operation).await;
    server.has_one_effect(&operation, &[&first, &again]).await
}
