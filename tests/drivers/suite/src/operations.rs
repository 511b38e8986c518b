//! Operations that are no gRPC calls: messages of a queue, jobs.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::oneshot;
use tonic::{Code, Status};
use tonic_idempotency::{
    Caller, IdempotencyLayer, UserId,
    policy::{DisconnectPolicy, FinalErrors, Mode, Procedure, ProcedureBuilder},
    rejection::Reason,
    run::{Bytes, Call, HandlerError, Operation, Outcome, RunError},
};
use tonic_idempotency_tests::{Database, until};
use uuid::Uuid;

use crate::{DEADLOCK, Stack, all_have_ended, patient, pool, rows, status};

const IMPORT: &str = "shop.v1/ImportProject";

/// An operation in transactional mode, and what its runs need.
struct Import {
    operation: Operation<Bytes>,
    caller: Caller,
    key: String,
    runs: Arc<AtomicUsize>,
}

type Imported = Result<Outcome<Vec<u8>>, RunError<Status>>;

impl Import {
    async fn new<S: Stack>(database: &Database, change: impl FnOnce(ProcedureBuilder) -> ProcedureBuilder) -> Self {
        let import = change(Procedure::operation(IMPORT).mode(Mode::Transactional).final_errors([Code::NotFound]));
        let layer = IdempotencyLayer::builder([]).store(patient::<S>(pool::<S>(database, 8))).procedure(import);
        let layer = layer.build().expect("an operation");
        let operation = layer.operation(IMPORT).expect("it is declared");
        let caller = Caller::new(UserId::new(database.user().await.id));
        Self { operation, caller, key: Uuid::new_v4().to_string(), runs: Arc::default() }
    }

    /// Runs it once, with a handler that inserts a project and then goes on.
    async fn run<S: Stack, F>(&self, name: &str, then: impl FnOnce(S::Transaction) -> F + Send + 'static) -> Imported
    where
        F: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let (runs, project) = (Arc::clone(&self.runs), name.to_owned());
        let handler = move |call: Call| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let transaction = S::transaction(call.extensions()).map_err(status)?;
            let mut connection = S::connection(&transaction).await.map_err(status)?;
            let id = S::insert(&mut connection, &project).await.map_err(status)?;
            drop(connection);
            then(transaction).await?;
            Ok(id.as_bytes().to_vec())
        };
        self.operation.run(&self.caller, &self.key, name.as_bytes(), handler).await
    }

    async fn insert<S: Stack>(&self, name: &str) -> Imported {
        self.run::<S, _>(name, |_| async { Ok(()) }).await
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

fn reason(imported: Imported) -> Reason {
    match imported {
        Err(RunError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

pub async fn take_effect_once_and_give_their_response_to_each_delivery<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let import = Import::new::<S>(&database, |it| it).await;
    let first = import.insert::<S>("shop").await.expect("the first delivery");
    assert!(!first.is_replay());
    let again = import.insert::<S>("shop").await.expect("the second delivery");
    assert_eq!(again, Outcome::Replayed(first.into_inner()));
    assert_eq!(reason(import.insert::<S>("another shop").await), Reason::KeyReused);
    assert_eq!((import.runs(), rows(&owner).await), (1, [1, 1, 1]));
    all_have_ended(&owner).await;
}

/// The connection is lost, or another transaction wins.
pub async fn whose_transaction_is_lost_may_be_delivered_again_whatever_their_handler_says<S: Stack>() {
    let database = Database::new().await;
    let owner = Arc::new(database.owner().await);
    let import = Import::new::<S>(&database, |it| it).await;
    for answer in [Ok(()), Err(Status::not_found("final")), Err(Status::internal("no"))] {
        let killer = Arc::clone(&owner);
        let ends = move |transaction| async move {
            let mut connection = S::connection(&transaction).await.map_err(status)?;
            let pid = S::select(&mut connection, "SELECT pg_backend_pid()::text").await.map_err(status)?;
            let kill = format!("SELECT pg_terminate_backend({})", pid.expect("its process"));
            killer.batch_execute(&kill).await.expect("it is killed");
            S::execute(&mut connection, "SELECT 1").await.expect_err("the connection is gone");
            answer
        };
        assert_eq!(reason(import.run::<S, _>("shop", ends).await), Reason::StoreUnavailable);
    }
    let lose = |transaction| async move {
        let mut connection = S::connection(&transaction).await.map_err(status)?;
        S::execute(&mut connection, DEADLOCK).await.map_err(status)
    };
    assert_eq!(reason(import.run::<S, _>("shop", lose).await), Reason::Conflict);
    all_have_ended(&owner).await;
    assert_eq!((import.runs(), rows(&owner).await), (4, [0; 3]));
    assert!(!import.insert::<S>("shop").await.expect("the key is free").is_replay());
    assert_eq!(rows(&owner).await, [1, 1, 1]);
}

pub async fn that_fail_leave_nothing_or_their_final_error<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let import = Import::new::<S>(&database, |it| it).await;
    for (code, is_kept, runs, records) in
        [(Code::Internal, false, 1, 0), (Code::NotFound, true, 2, 1), (Code::NotFound, true, 2, 1)]
    {
        let ended = import.run::<S, _>("shop", move |_| async move { Err(Status::new(code, "no")) }).await;
        let Err(RunError::Failed { error, is_final }) = ended else { panic!("{ended:?}") };
        assert_eq!((error.code(), error.message(), is_final), (code, "no", is_kept));
        all_have_ended(&owner).await;
        assert_eq!((import.runs(), rows(&owner).await), (runs, [0, 0, records]));
    }
}

/// A message that can never be handled: its error has no code.
#[derive(Debug)]
struct Poison;

impl HandlerError for Poison {
    fn to_final(&self, _codes: &FinalErrors) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    fn from_final(_stored: &[u8]) -> Option<Self> {
        Some(Self)
    }
}

pub async fn that_can_never_succeed_leave_their_error_and_nothing_else<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let import = Import::new::<S>(&database, |it| it.final_errors([])).await;
    for _ in 0..2 {
        let runs = Arc::clone(&import.runs);
        let handler = move |call: Call| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let transaction = S::transaction(call.extensions()).expect("a transaction");
            let mut connection = S::connection(&transaction).await.expect("a connection");
            S::insert(&mut connection, "shop").await.expect("a project");
            Err(Poison)
        };
        let ended = import.operation.run(&import.caller, &import.key, b"", handler).await;
        assert!(matches!(ended, Err(RunError::Failed { is_final: true, .. })), "{ended:?}");
        all_have_ended(&owner).await;
        assert_eq!((import.runs(), rows(&owner).await), (1, [0, 0, 1]));
    }
}

/// The consumer goes away in the middle: the handler runs to its end, or is rolled back.
pub async fn whose_future_is_dropped_end_as_their_policy_says<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    for (policy, runs, expected) in
        [(DisconnectPolicy::Finish, 1, [1, 1, 1]), (DisconnectPolicy::RollBack, 2, [2, 2, 2])]
    {
        let import = Import::new::<S>(&database, |it| it.on_disconnect(policy)).await;
        let (arrives, arrived) = oneshot::channel();
        let (opens, opened) = oneshot::channel();
        let waits = |_| async move {
            arrives.send(()).expect("the test waits");
            opened.await.map_err(|_| Status::internal("never opened"))
        };
        let mut delivery = Box::pin(import.run::<S, _>("shop", waits));
        tokio::select! {
            ended = &mut delivery => panic!("{ended:?}"),
            arrived = arrived => arrived.expect("the handler waits"),
        }
        // The handler may end in the same moment.
        drop(delivery);
        let _ = opens.send(());
        until(
            "the first delivery has ended",
            async || matches!(import.insert::<S>("shop").await, Ok(outcome) if outcome.is_replay() == (runs == 1)),
        )
        .await;
        all_have_ended(&owner).await;
        assert_eq!((import.runs(), rows(&owner).await), (runs, expected), "{policy:?}");
    }
}
