//! E: an operation has one effect, however often it is sent.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::promise::{Group, Need, Promise};
use crate::check::{
    finding::{Checked, Finding, failed},
    options::Level,
    server::Server,
    wire::{Answer, Connection, Stop},
};

pub(super) const GROUP: Group = Group { title: "E: one effect", promises: PROMISES };

/// How often a race is run: whoever loses it once may win it the next time.
const RACES: usize = 5;

/// How many calls race.
const AT_ONCE: usize = 20;

/// How long a server may take to notice that an answer was not read.
const NOTICE: Duration = Duration::from_millis(300);

const PROMISES: &[Promise] = &[
    Promise {
        code: "E1",
        sentence: "the same call twice has one effect",
        reason: "a client whose answer was lost cannot but send it again",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(twice(server)),
    },
    Promise {
        code: "E2",
        sentence: "twenty at once on one connection have one effect",
        reason: "whoever looks for the key and then runs lets all of them through",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 100,
        creates: 5,
        check: |server| Box::pin(at_once_on_one(server)),
    },
    Promise {
        code: "E3",
        sentence: "twenty at once on twenty connections have one effect",
        reason: "a lock of the connection does not hold between clients",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 100,
        creates: 5,
        check: |server| Box::pin(at_once_on_many(server)),
    },
    Promise {
        code: "E4",
        sentence: "calls at once at two servers have one effect",
        reason: "a lock of the process does not hold between servers",
        level: Level::Core,
        needs: &[Need::Also, Need::Count],
        calls: 20,
        creates: 5,
        check: |server| Box::pin(at_once_at_two(server)),
    },
    Promise {
        code: "E5",
        sentence: "a retry at a second server has no second effect",
        reason: "a balancer sends a retry anywhere",
        level: Level::Core,
        needs: &[Need::Also, Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(at_another(server)),
    },
    Promise {
        code: "E6",
        sentence: "a retry after a lost answer has no second effect",
        reason: "the effect is there, and the client does not know it",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 3,
        creates: 1,
        check: |server| Box::pin(after_a_lost_answer(server)),
    },
];

async fn twice(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    let again = server.call(&operation).await;
    server.has_one_effect(&operation, &[&first, &again]).await
}

async fn at_once_on_one(server: &Server) -> Checked {
    let connections = server.connections(&server.address, 1).await?;
    races(server, &connections.iter().cycle().take(AT_ONCE).collect::<Vec<_>>()).await
}

async fn at_once_on_many(server: &Server) -> Checked {
    let connections = server.connections(&server.address, AT_ONCE).await?;
    races(server, &connections.iter().collect::<Vec<_>>()).await
}

async fn at_once_at_two(server: &Server) -> Checked {
    let mut connections = server.connections(&server.address, 2).await?;
    if let Some(also) = &server.also {
        connections.extend(server.connections(also, 2).await?);
    }
    races(server, &connections.iter().collect::<Vec<_>>()).await
}

/// Races several times. Without a counter, one of them may still show two effects.
async fn races(server: &Server, connections: &[&Connection]) -> Checked {
    let mut checked = race(server, connections).await;
    for _ in 1..RACES {
        match checked {
            Ok(_) | Err(Finding::NotChecked(_)) => checked = race(server, connections).await,
            found => return found,
        }
    }
    checked
}

/// Sends one operation over all connections at once.
async fn race(server: &Server, connections: &[&Connection]) -> Checked {
    let operation = server.operation()?;
    let calls = connections.iter().map(|connection| server.attempt(&operation).send_on(connection));
    let answers: Vec<Answer> = join_all(calls).await;
    if let (Some(one), true) = (answers.first(), answers.iter().all(|answer| answer.message().is_none())) {
        return failed(format!("none of {} calls succeeded: {one}", answers.len()));
    }
    server.has_one_effect(&operation, &answers.iter().collect::<Vec<_>>()).await
}

async fn at_another(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    let mut answers = vec![first];
    if let Some(also) = &server.also {
        let connection = server.connection(also).await?;
        answers.push(server.attempt(&operation).send_on(&connection).await);
    }
    server.has_one_effect(&operation, &answers.iter().collect::<Vec<_>>()).await
}

async fn after_a_lost_answer(server: &Server) -> Checked {
    let operation = server.operation()?;
    let connection = server.connection(&server.address).await?;
    let cut = server.attempt(&operation).cut(connection, Stop::AtAnswer).await;
    cut.map_err(|answer| Finding::Failed(answer.to_string()))?;
    let again = server.retry(&operation).await;
    // The server may have noticed only now.
    sleep(NOTICE).await;
    let last = server.call(&operation).await;
    server.has_one_effect(&operation, &[&again, &last]).await
}
