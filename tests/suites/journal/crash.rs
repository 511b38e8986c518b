//! A client that is killed at each step of a call to our server: the operation happens once.

use std::{net::SocketAddr, os::unix::process::ExitStatusExt as _};

use tokio::task::spawn_blocking;
use tonic::service::{Routes, interceptor::InterceptedService};
use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
use tonic_idempotency_tests::shop::{self, Counting, FILE_DESCRIPTOR_SET};

use super::prelude::*;
use super::{
    child::{client, said},
    harness::{Directory, keys},
};

/// Each step at which the client dies, and how often the operation then happens.
const STEPS: [(&str, usize); 7] = [
    // It was neither sent nor written, so it has not begun.
    ("before_write", 0),
    ("after_write", 1),
    ("before_send", 1),
    ("in_handler", 1),
    ("after_answer", 1),
    ("before_end", 1),
    ("after_end", 1),
];

/// Our server, and the counter of its effects.
async fn service() -> (Counting, SocketAddr) {
    let handler = Counting::default();
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(MemoryStore::new()).build().expect("the layer");
    let wrapped = layer.layer(shop::server(handler.clone()));
    let address = shop::serve(Routes::new(InterceptedService::new(wrapped, shop::authenticate))).await;
    (handler, address)
}

/// Runs a process to its end; returns what it says, and the signal that has ended it.
async fn run(mut command: Command) -> (Vec<String>, Option<i32>) {
    let output = spawn_blocking(move || command.output()).await.expect("no panic").expect("a process");
    let text = String::from_utf8(output.stdout).expect("text");
    (text.lines().filter_map(said).map(str::to_owned).collect(), output.status.signal())
}

#[tokio::test]
async fn wherever_a_client_is_killed_its_next_life_ends_the_operation_once() {
    let (handler, server) = service().await;
    let mut effects = 0;
    for (step, times) in STEPS {
        let (directory, user) = (Directory::new(), Uuid::new_v4());
        let call = client("call", &directory.file(), server, user, step);
        if step == "in_handler" {
            let started = handler.started();
            let mut child = { call }.spawn().expect("a process");
            until("the handler has begun", async || handler.started() > started).await;
            child.kill().expect("a process");
            child.wait().expect("a process");
            handler.open(1);
        } else {
            assert_eq!(run(call).await, (vec![], Some(9)), "{step}");
        }
        let (outcomes, signal) = run(client("resume", &directory.file(), server, user, "")).await;
        effects += times;
        assert_eq!((handler.finished(), signal), (effects, None), "{step}");
        let ended_before = matches!(step, "before_write" | "after_end");
        assert_eq!(outcomes.len(), usize::from(!ended_before), "{step}: {outcomes:?}");
        assert!(outcomes.iter().all(|outcome| outcome.starts_with("Answered")), "{step}: {outcomes:?}");
        assert!(keys(&Journal::open(directory.file()).expect("a journal")).await.is_empty(), "{step}");
    }
}

#[tokio::test]
async fn a_client_that_is_killed_while_it_resumes_resumes_again() {
    let (handler, server) = service().await;
    let (directory, user) = (Directory::new(), Uuid::new_v4());
    run(client("call", &directory.file(), server, user, "after_write")).await;
    for step in ["before_send", "after_answer", "before_end"] {
        assert_eq!(run(client("resume", &directory.file(), server, user, step)).await.1, Some(9), "{step}");
    }
    let (outcomes, _) = run(client("resume", &directory.file(), server, user, "")).await;
    assert!(matches!(&outcomes[..], [outcome] if outcome.contains("replayed: true")), "{outcomes:?}");
    assert_eq!(handler.finished(), 1);
}
