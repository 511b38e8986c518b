//! I: nothing is mixed: a key answers for one message, one procedure and one user.

use std::time::Instant;

use futures_util::future::join;

use super::{
    answers::{answered, succeeded},
    promise::{Group, Need, Promise},
};
use crate::check::{
    finding::{Checked, Finding, Proof, failed, not_checked},
    operation::Operation,
    options::Level,
    server::Server,
    wire::Answer,
};

pub(super) const GROUP: Group = Group { title: "I: nothing is mixed", promises: PROMISES };

const PROMISES: &[Promise] = &[
    Promise {
        code: "I1",
        sentence: "a key refuses another message",
        reason: "a client that makes its key wrongly would believe that another order was placed",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(another_message(server)),
    },
    Promise {
        code: "I2",
        sentence: "a key refuses another message while its first call runs",
        reason: "the message has to be remembered before the answer is",
        level: Level::Core,
        needs: &[Need::Count, Need::Slow],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(another_message_meanwhile(server)),
    },
    Promise {
        code: "I3",
        sentence: "a key never answers another procedure",
        reason: "the bytes of one response may decode as another's",
        level: Level::Core,
        needs: &[Need::Other],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(another_procedure(server)),
    },
    Promise {
        code: "I4",
        sentence: "a key never answers another user",
        reason: "a response is its user's; a key is no secret",
        level: Level::Core,
        needs: &[Need::SecondHeader],
        calls: 2,
        creates: 2,
        check: |server| Box::pin(another_user(server)),
    },
    Promise {
        code: "I5",
        sentence: "a key does not bar another user's operation",
        reason: "whoever guesses keys would stop the calls of others",
        level: Level::Core,
        needs: &[Need::Count, Need::SecondHeader],
        calls: 2,
        creates: 2,
        check: |server| Box::pin(another_users_message(server)),
    },
    Promise {
        code: "I6",
        sentence: "a refused message leaves the first answer in place",
        reason: "a mistake with a key must not make its next retry run",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 3,
        creates: 1,
        check: |server| Box::pin(refused_and_retried(server)),
    },
];

/// Another operation under the same key.
fn with_key_of(server: &Server, operation: &Operation) -> Result<Operation, Finding> {
    Ok(Operation { key: operation.key.clone(), ..server.operation()? })
}

/// Finds that a call under a used key was refused, and had no effect.
async fn is_refused(server: &Server, operation: &Operation, first: &Answer, answer: &Answer) -> Checked {
    answered(answer)?;
    match (first.message(), answer.message()) {
        (Some(first), Some(message)) if first == message => failed("OK, with the first response"),
        (_, Some(_)) => failed(answer.to_string()),
        _ => server.has_effects(operation, 0, &[]).await,
    }
}

async fn another_message(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let other = with_key_of(server, &operation)?;
    let answer = server.call(&other).await;
    is_refused(server, &other, &first, &answer).await
}

async fn another_message_meanwhile(server: &Server) -> Checked {
    let operation = server.operation()?;
    let other = with_key_of(server, &operation)?;
    let begun = Instant::now();
    let (first, answer) = join(server.attempt(&operation).slow().send(), async {
        server.is_in_handler().await;
        server.call(&other).await
    })
    .await;
    succeeded(&first)?;
    server.settles(begun, server.times().slow).await;
    is_refused(server, &other, &first, &answer).await
}

async fn another_procedure(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    let message = succeeded(&first)?;
    let (Some(template), Some(other)) = (&server.other, server.other_of(&operation)?) else {
        return not_checked("needs --other");
    };
    let answer = server.attempt(&other).of(template).send().await;
    answered(&answer)?;
    match answer.message() {
        Some(other) if other == message && !message.is_empty() => failed("OK, with the first response"),
        Some(_) if answer.header("idempotent-replayed") == Some("true") => failed("OK, as a replay"),
        _ => Ok(Proof::Answers),
    }
}

async fn another_user(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    let message = succeeded(&first)?;
    if message.is_empty() {
        return not_checked("an empty response is the same for all");
    }
    let answer = server.attempt(&operation).of_second_user().send().await;
    answered(&answer)?;
    match answer.message() {
        Some(other) if other == message => failed("OK, with the first user's response"),
        _ => Ok(Proof::Answers),
    }
}

async fn another_users_message(server: &Server) -> Checked {
    let operation = server.operation()?;
    succeeded(&server.call(&operation).await)?;
    let other = with_key_of(server, &operation)?;
    let answer = server.attempt(&other).of_second_user().send().await;
    if answer.message().is_none() {
        return failed(format!("the second user's call: {answer}"));
    }
    server.has_one_effect(&other, &[&answer]).await
}

async fn refused_and_retried(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let other = with_key_of(server, &operation)?;
    server.call(&other).await;
    let again = server.call(&operation).await;
    if again.message().is_none() {
        return failed(format!("the first message again: {again}"));
    }
    server.has_one_effect(&operation, &[&first, &again]).await
}
