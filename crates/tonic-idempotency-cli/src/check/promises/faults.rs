//! F: whatever becomes of a call, its operation has one effect, and its retry is answered.

use std::time::{Duration, Instant};

use futures_util::future::join;

use super::{
    answers::{answered, succeeded},
    promise::{Check, Group, Need, Promise},
};
use crate::check::{
    finding::{Checked, Finding, Proof, failed},
    operation::Operation,
    options::Level,
    server::Server,
    wire::{Answer, Stop},
};

pub(super) const GROUP: Group = Group { title: "F: faults", promises: PROMISES };

/// A check that begins a call and resets it.
const fn reset(code: &'static str, sentence: &'static str, reason: &'static str, check: Check) -> Promise {
    Promise { code, sentence, reason, level: Level::Core, needs: &[Need::Count], calls: 3, creates: 1, check }
}

/// The same, during a handler that takes long.
const fn during(code: &'static str, sentence: &'static str, reason: &'static str, check: Check) -> Promise {
    Promise { needs: &[Need::Count, Need::Slow], calls: 5, ..reset(code, sentence, reason, check) }
}

const PROMISES: &[Promise] = &[
    reset(
        "F1",
        "a call reset before its message leaves its key free",
        "a key that was never used would be lost",
        |server| Box::pin(is_reset(server, Stop::BeforeMessage)),
    ),
    reset("F2", "a call reset in its message leaves its key free", "half a message is no call", |server| {
        Box::pin(is_reset(server, Stop::InMessage))
    }),
    reset(
        "F3",
        "a call reset before its end has one effect",
        "whether it ran or not, its retry is answered",
        |server| Box::pin(is_reset(server, Stop::AfterMessage)),
    ),
    reset("F4", "a call reset at its end has one effect", "a client gives up while its call is on the way", |server| {
        Box::pin(is_reset_at_end(server))
    }),
    during(
        "F5",
        "a call reset while its handler runs has one effect",
        "a handler that is dropped may be half done",
        |server| Box::pin(is_reset_in_handler(server)),
    ),
    during("F6", "a connection cut while a handler runs has one effect", "a proxy restarts", |server| {
        Box::pin(is_cut_in_handler(server))
    }),
    reset(
        "F7",
        "a call reset at its answer has one effect",
        "the effect is there, and the answer half read",
        |server| Box::pin(is_reset(server, Stop::AtAnswer)),
    ),
    Promise {
        code: "F8",
        sentence: "a call outlives its server, or is refused, but never doubled",
        reason: "a process that dies has told nobody how far it was",
        level: Level::Core,
        needs: &[Need::Count, Need::Slow, Need::Restart],
        calls: 10,
        creates: 1,
        check: |server| Box::pin(is_killed(server)),
    },
    during(
        "F9",
        "a deadline that passes in the handler leaves one effect",
        "the client is gone, the handler may not be",
        |server| Box::pin(is_late(server)),
    ),
    during(
        "F10",
        "a retry during its first call waits or is refused",
        "an impatient client is the usual one",
        |server| Box::pin(is_retried_meanwhile(server)),
    ),
    Promise {
        code: "F11",
        sentence: "a record outlives its server",
        reason: "a deployment must not forget what took effect",
        level: Level::Core,
        needs: &[Need::Count, Need::Restart],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(is_remembered(server)),
    },
];

fn begun(result: Result<(), Answer>) -> Result<(), Finding> {
    result.map_err(|answer| Finding::Failed(format!("the call that is given up: {answer}")))
}

async fn is_reset(server: &Server, stop: Stop) -> Checked {
    let operation = server.operation()?;
    let time = Instant::now();
    begun(server.attempt(&operation).reset(stop).await)?;
    is_answered_once(server, &operation, time, server.times().usual).await
}

/// With a slow handler, that is surely not over when the call is reset.
async fn is_reset_at_end(server: &Server) -> Checked {
    let operation = server.operation()?;
    let (time, times) = (Instant::now(), server.times());
    begun(server.attempt(&operation).slow().reset(Stop::AfterRequest).await)?;
    is_answered_once(server, &operation, time, times.slow.max(times.usual)).await
}

async fn is_reset_in_handler(server: &Server) -> Checked {
    let operation = server.operation()?;
    let time = Instant::now();
    begun(server.attempt(&operation).slow().reset(Stop::Later(server.times().slow / 3)).await)?;
    is_answered_once(server, &operation, time, server.times().slow).await
}

async fn is_cut_in_handler(server: &Server) -> Checked {
    let operation = server.operation()?;
    let time = Instant::now();
    let connection = server.connection(&server.address).await?;
    begun(server.attempt(&operation).slow().cut(connection, Stop::Later(server.times().slow / 3)).await)?;
    is_answered_once(server, &operation, time, server.times().slow).await
}

/// Finds that a retry is answered, and that the operation has one effect, also of the call that was given up.
async fn is_answered_once(server: &Server, operation: &Operation, begun: Instant, time: Duration) -> Checked {
    let again = server.retry(operation).await;
    if again.message().is_none() {
        return failed(format!("its retries are refused: {again}"));
    }
    server.settles(begun, time).await;
    // The server may have noticed only now that a caller is gone.
    let last = server.call(operation).await;
    server.has_one_effect(operation, &[&again, &last]).await
}

async fn is_late(server: &Server) -> Checked {
    let operation = server.operation()?;
    let time = Instant::now();
    let late = server.attempt(&operation).slow().deadline(server.times().slow / 3).send().await;
    if late.message().is_some() {
        // A server need not look at the deadline; then there is nothing to retry.
        return server.has_one_effect(&operation, &[&late]).await;
    }
    is_answered_once(server, &operation, time, server.times().slow).await
}

async fn is_retried_meanwhile(server: &Server) -> Checked {
    let operation = server.operation()?;
    let time = Instant::now();
    let (first, meanwhile) = join(server.attempt(&operation).slow().send(), async {
        server.is_in_handler().await;
        server.call(&operation).await
    })
    .await;
    let message = succeeded(&first)?;
    answered(&meanwhile)?;
    if meanwhile.message().is_some_and(|other| other.is_empty() && !message.is_empty()) {
        return failed("an empty response to a call during the first");
    }
    server.settles(time, server.times().slow).await;
    server.has_one_effect(&operation, &[&first, &meanwhile]).await
}

async fn is_killed(server: &Server) -> Checked {
    let operation = server.operation()?;
    let time = Instant::now();
    let (_, restarted) = join(server.attempt(&operation).slow().send(), async {
        server.is_in_handler().await;
        server.restart().await
    })
    .await;
    restarted?;
    let again = server.retry(&operation).await;
    server.settles(time, server.times().slow).await;
    match (again.message(), server.effects(&operation).await?) {
        (None, Some(0 | 1)) => Ok(Proof::Answers),
        _ => server.has_one_effect(&operation, &[&again]).await,
    }
}

async fn is_remembered(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    server.restart().await?;
    let again = server.retry(&operation).await;
    server.has_one_effect(&operation, &[&first, &again]).await
}
