//! The calls that have to succeed before a promise can be checked.

use std::time::{Duration, Instant};

use super::{
    finding::Finding,
    server::{Server, Times},
    wire::Answer,
};
use crate::{failure::Failure, output};

/// How many calls the probe makes.
pub(super) const CALLS: u32 = 7;

/// How long a handler has to take at least that is made slow. A second is asked for.
const SLOW: Duration = Duration::from_millis(900);

/// Calls with and without a key, and returns how the server shows that it knows no keys, if it does.
pub(super) async fn probe(server: &Server) -> Result<Option<String>, Failure> {
    match probed(server).await {
        Ok(()) => Ok(None),
        Err(Finding::Failed(evidence)) => Ok(Some(evidence)),
        Err(Finding::Ended(failure)) => Err(failure),
        Err(Finding::NotChecked(why) | Finding::NotPromised(why)) => Err(Failure::NoAnswer(why)),
    }
}

async fn probed(server: &Server) -> Result<(), Finding> {
    let (operation, begun) = (server.operation()?, Instant::now());
    let first = server.call(&operation).await;
    succeeds("a call with a key", &first)?;
    server.set_times(Times { usual: begun.elapsed() * 2, slow: Duration::ZERO });
    if server.effects(&operation).await? == Some(0) {
        let why =
            "--count prints 0 after a call that succeeded: it has to count the effects of the operation $CHECK_UUID";
        return Err(Failure::NoAnswer(why.to_owned()).into());
    }
    let again = server.call(&operation).await;
    match server.has_one_effect(&operation, &[&first, &again]).await {
        Err(Finding::Failed(evidence)) => return Err(Finding::Failed(format!("the server knows no keys: {evidence}"))),
        Err(Finding::Ended(failure)) => return Err(failure.into()),
        _ => {}
    }
    let unkeyed = server.operation()?;
    let answer = server.attempt(&unkeyed).keys([]).send().await;
    if answer.message().is_none() {
        output::note(&server.secrets.hide(&format!("the server requires a key: without one it answers {answer}")))?;
    }
    others(server).await
}

/// Tries what else was given: the slow handler, the second user, the other method, the other server.
async fn others(server: &Server) -> Result<(), Finding> {
    if server.slow.is_some() {
        let (operation, begun) = (server.operation()?, Instant::now());
        let answer = server.attempt(&operation).slow().send().await;
        succeeds("--slow", &answer)?;
        let time = begun.elapsed();
        if time < SLOW {
            let why =
                format!("--slow: the call took {:.1} s; its handler has to take a second or more", time.as_secs_f64());
            return Err(Failure::Input(why).into());
        }
        server.set_times(Times { slow: time, ..server.times() });
    }
    if !server.second_headers.is_empty() {
        let operation = server.operation()?;
        succeeds("--second-header", &server.attempt(&operation).of_second_user().send().await)?;
    }
    let operation = server.operation()?;
    if let (Some(template), Some(other)) = (&server.other, server.other_of(&operation)?) {
        succeeds("--other", &server.attempt(&other).of(template).send().await)?;
    }
    if let Some(also) = &server.also {
        let (operation, connection) = (server.operation()?, server.connection(also).await?);
        succeeds("--also", &server.attempt(&operation).send_on(&connection).await)?;
    }
    Ok(())
}

/// A server that refuses everything would keep many promises.
fn succeeds(what: &str, answer: &Answer) -> Result<(), Finding> {
    if answer.message().is_some() {
        return Ok(());
    }
    Err(Failure::NoAnswer(format!("{what}: {answer}")).into())
}
