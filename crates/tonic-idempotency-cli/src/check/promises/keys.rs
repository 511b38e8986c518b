//! K: keys in all their forms.

use uuid::Uuid;

use super::{
    answers::{answered, succeeded},
    promise::{Group, Need, Promise},
};
use crate::check::{
    finding::{Checked, failed},
    operation::Operation,
    options::Level,
    server::Server,
    wire::Answer,
};

pub(super) const GROUP: Group = Group { title: "K: keys", promises: PROMISES };

/// The length of a long key, in characters.
const LONG: usize = 256;

const PROMISES: &[Promise] = &[
    Promise {
        code: "K1",
        sentence: "a key in quotes is no other key",
        reason: "the IETF's draft has quotes, and many clients have none",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(in_another_form(server, |key| format!("\"{key}\""))),
    },
    Promise {
        code: "K2",
        sentence: "a UUID in capitals is no other key",
        reason: "libraries differ in how they print a UUID",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(in_another_form(server, |key| key.to_uppercase())),
    },
    Promise {
        code: "K3",
        sentence: "the same key twice in a call is no other key",
        reason: "a proxy and a client may both add the header",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 1,
        check: |server| Box::pin(repeated(server)),
    },
    Promise {
        code: "K4",
        sentence: "of two keys in a call, both protect, or it is refused",
        reason: "the retry may come with either",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 3,
        creates: 1,
        check: |server| Box::pin(two_keys(server)),
    },
    Promise {
        code: "K5",
        sentence: "a key of 256 characters counts whole, or is refused",
        reason: "a key that is cut off is another operation's",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 2,
        check: |server| Box::pin(long(server)),
    },
    Promise {
        code: "K6",
        sentence: "an empty key is none, or is refused",
        reason: "all clients that forget their key would share one",
        level: Level::Core,
        needs: &[Need::Count],
        calls: 2,
        creates: 2,
        check: |server| Box::pin(empty(server)),
    },
];

/// The retry may be refused, but not run.
async fn in_another_form(server: &Server, form: fn(&str) -> String) -> Checked {
    // With letters, for want of which capitals change nothing.
    let key = format!("{}abcd", &Uuid::new_v4().to_string()[..32]);
    let operation = Operation { key, ..server.operation()? };
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let again = server.attempt(&operation).keys([&form(&operation.key)]).send().await;
    server.has_one_effect(&operation, &[&first, &again]).await
}

async fn repeated(server: &Server) -> Checked {
    let operation = server.operation()?;
    let twice = server.attempt(&operation).keys([&operation.key, &operation.key]).send().await;
    let again = server.call(&operation).await;
    succeeded(&again)?;
    server.has_one_effect(&operation, &[&twice, &again]).await
}

async fn two_keys(server: &Server) -> Checked {
    let operation = server.operation()?;
    let other = Uuid::new_v4().to_string();
    let both = server.attempt(&operation).keys([&operation.key, &other]).send().await;
    answered(&both)?;
    if both.message().is_none() {
        return server.has_effects(&operation, 0, &[]).await;
    }
    let one = server.call(&operation).await;
    let another = server.attempt(&operation).keys([&other]).send().await;
    server.has_one_effect(&operation, &[&both, &one, &another]).await
}

async fn long(server: &Server) -> Checked {
    let key = "k".repeat(LONG - 1);
    let call = async |last: char| {
        let operation = Operation { key: format!("{key}{last}"), ..server.operation()? };
        let answer = server.call(&operation).await;
        Ok::<_, crate::check::finding::Finding>((operation, answer))
    };
    let (one, first) = call('a').await?;
    let (other, second) = call('b').await?;
    differ(server, [(&one, &first), (&other, &second)]).await
}

async fn empty(server: &Server) -> Checked {
    let [one, other] = [server.operation()?, server.operation()?];
    let first = server.attempt(&one).keys([""]).send().await;
    let second = server.attempt(&other).keys([""]).send().await;
    differ(server, [(&one, &first), (&other, &second)]).await
}

/// Finds that two operations are not taken for one.
async fn differ(server: &Server, operations: [(&Operation, &Answer); 2]) -> Checked {
    let [(one, first), (other, second)] = operations;
    answered(first)?;
    answered(second)?;
    match (first.message(), second.message()) {
        (None, None) => {
            server.has_effects(one, 0, &[]).await?;
            server.has_effects(other, 0, &[]).await
        }
        (Some(first), Some(second)) if first == second && !first.is_empty() => {
            failed("OK, with the first operation's response")
        }
        (Some(_), Some(_)) => {
            server.has_one_effect(one, &[]).await?;
            server.has_one_effect(other, &[]).await
        }
        _ => failed(format!("two operations, of which one is refused: {first}; {second}")),
    }
}
