//! A server that has not shown the layer for a procedure: the journal's calls ask it before they are sent, or sent again.

use tokio::time::{Instant, sleep};
use tonic_idempotency_client::{
    IdempotencyClient, Unresolved,
    journal::{JournalStore, MemoryJournalStore},
};

use super::prelude::*;
use super::{
    foreign::GET_ORDER,
    harness::{self, Watched, keyed, keys, layer},
    line::{Line, Says},
};

const DESCRIBE: &str = "DescribeProcedure";
const SECOND: Duration = Duration::from_secs(1);

/// A client with a journal, of our server at the end of a line.
struct Setup {
    client: ShopClient<IdempotencyClient<Line>>,
    journal: Journal,
    service: IdempotencyClient<Line>,
}

impl Setup {
    /// A new process with this journal. Only the client takes `GetOrder` for a procedure that has keys.
    fn new(line: &Line, store: impl JournalStore, requires: bool) -> Self {
        let journal = Journal::builder().metadata(["user"]).in_place();
        let journal = if requires { journal.require_protection() } else { journal };
        let journal = journal.store(store).expect("a journal");
        let layer = layer(&journal, |layer| layer.procedure(GET_ORDER).operation_timeout(30 * SECOND));
        let service = layer.layer(line.clone());
        Self { client: ShopClient::new(service.clone()), journal, service }
    }
}

fn request(key: &str) -> Request<CreateOrderRequest> {
    let mut request = keyed("shop", key);
    request.metadata_mut().insert("user", Uuid::new_v4().to_string().parse().expect("metadata"));
    request
}

fn key() -> String {
    Uuid::new_v4().to_string()
}

#[tokio::test(start_paused = true)]
async fn is_asked_before_the_first_attempt_if_protection_is_required() {
    for requires in [true, false] {
        let line = Line::new();
        let mut setup = Setup::new(&line, MemoryJournalStore::default(), requires);
        for calls in [if requires { vec![DESCRIBE, "CreateOrder"] } else { vec!["CreateOrder"] }, vec!["CreateOrder"]] {
            setup.client.create_order(request(&key())).await.expect("an order");
            assert_eq!(line.calls(), calls);
        }
        assert!(keys(&setup.journal).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn gets_no_attempt_if_it_does_not_protect_the_procedure_and_protection_is_required() {
    let line = Line::new();
    let mut setup = Setup::new(&line, MemoryJournalStore::default(), true);
    for _ in 0..2 {
        let error = setup.client.get_order(request(&key())).await.expect_err("it is not sent");
        assert_eq!((error.code(), Unresolved::of(&error)), (Code::FailedPrecondition, None));
        assert!(error.message().contains("was not sent: its server says"), "{error}");
        assert_eq!((line.calls(), line.handler.started()), (vec![DESCRIBE.to_owned()], 0));
        assert!(keys(&setup.journal).await.is_empty(), "nothing is left to send");
    }
}

/// As before there was such a question.
#[tokio::test(start_paused = true)]
async fn gets_one_attempt_if_it_cannot_tell_and_protection_is_required() {
    let line = Line::without_operations();
    let mut setup = Setup::new(&line, MemoryJournalStore::default(), true);
    line.lose(1);
    let error = setup.client.create_order(request(&key())).await.expect_err("the answer is lost");
    let unresolved = Unresolved::of(&error).expect("it is not known what became of it");
    assert_eq!((unresolved.attempts, unresolved.in_journal, unresolved.unprotected), (1, true, false));
    assert_eq!(line.calls(), [DESCRIBE, "CreateOrder"]);
    let [failed] = &setup.journal.resume(setup.service.clone()).await[..] else { panic!("one entry") };
    assert!(matches!(&failed.outcome, EntryOutcome::Failed(error) if error.code() == Code::FailedPrecondition));
    assert_eq!((line.calls(), line.handler.started()), (vec![DESCRIBE.to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn keeps_a_call_in_the_journal_that_it_has_no_answer_for() {
    for says in [Says::Nothing, Says::Error(Status::unavailable("away"))] {
        let line = Line::new();
        let mut setup = Setup::new(&line, MemoryJournalStore::default(), true);
        line.says(says);
        let began = Instant::now();
        let error = setup.client.create_order(request(&key())).await.expect_err("it is not sent");
        assert!(began.elapsed() <= 30 * SECOND, "{:?}", began.elapsed());
        assert!(error.message().contains("has not said whether it protects the procedure"), "{error}");
        let unresolved = Unresolved::of(&error).expect("it is sent later");
        assert_eq!((unresolved.attempts, unresolved.in_journal, line.handler.started()), (0, true, 0));
        // Nor does the worker send it, until there is an answer.
        let worker = setup.journal.spawn(setup.service.clone());
        sleep(120 * SECOND).await;
        assert_eq!((keys(&setup.journal).await.len(), line.handler.started()), (1, 0));
        line.says(Says::Truth);
        until("it is sent", async || keys(&setup.journal).await.is_empty()).await;
        assert_eq!(line.handler.finished(), 1);
        worker.shut_down().await;
    }
}

/// The outcome of a call that an earlier process has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Answered,
    Failed,
    Unresolved,
}

#[tokio::test(start_paused = true)]
async fn is_asked_before_the_next_process_sends_a_call() {
    use Expected::{Answered, Failed, Unresolved};
    let unimplemented = || Says::Error(Status::unimplemented(""));
    let unprotected = || Says::Error(Status::not_found(""));
    for (requires, says, expected) in [
        (false, Says::Truth, Answered),
        (false, unimplemented(), Answered),
        (false, unprotected(), Unresolved),
        (false, Says::Error(Status::unauthenticated("")), Unresolved),
        (true, Says::Truth, Answered),
        (true, unimplemented(), Failed),
        (true, unprotected(), Failed),
        (true, Says::Error(Status::unauthenticated("")), Unresolved),
        (true, Says::Nothing, Unresolved),
    ] {
        let (line, store) = (Line::new(), Watched::default());
        let mut first = Setup::new(&line, store.clone(), false);
        line.lose(1);
        line.says(Says::Error(Status::unavailable("away")));
        let key = key();
        first.client.create_order(request(&key)).await.expect_err("its answer is lost");
        drop(first);
        line.calls();

        line.says(says);
        let next = Setup::new(&line, store, requires);
        let [resumed] = &next.journal.resume(next.service.clone()).await[..] else { panic!("one entry") };
        let found = match &resumed.outcome {
            EntryOutcome::Answered(reply) => {
                assert!(reply.delivery.replayed);
                Answered
            }
            EntryOutcome::Failed(error) => {
                assert_eq!(error.code(), Code::FailedPrecondition);
                Failed
            }
            EntryOutcome::Unresolved(_) => Unresolved,
            other => panic!("{other:?}"),
        };
        let calls = line.calls();
        assert_eq!(found, expected, "{requires} {calls:?}");
        assert_eq!(calls.contains(&"CreateOrder".to_owned()), expected == Answered, "{calls:?}");
        assert_eq!((&*calls[0], line.handler.started()), (DESCRIBE, 1));
        assert_eq!(keys(&next.journal).await.is_empty(), expected == Answered);
        if expected == Failed {
            // The application knows better.
            next.journal.send_again(&harness::key(&key)).await.expect("an entry");
            next.journal.resume(next.service.clone()).await;
            assert_eq!(line.calls(), ["CreateOrder"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn is_asked_although_the_service_lacks_the_layer() {
    let (line, store) = (Line::new(), Watched::default());
    let mut first = Setup::new(&line, store.clone(), false);
    line.lose(1);
    line.says(Says::Error(Status::unavailable("away")));
    first.client.create_order(request(&key())).await.expect_err("its answer is lost");
    drop(first);
    line.says(Says::Error(Status::not_found("")));
    let next = Setup::new(&line, store, true);
    let [resumed] = &next.journal.resume(line.clone()).await[..] else { panic!("one entry") };
    assert!(matches!(resumed.outcome, EntryOutcome::Failed(_)), "{resumed:?}");
    assert_eq!(line.handler.started(), 1);
}
