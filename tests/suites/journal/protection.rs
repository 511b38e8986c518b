//! A journal that requires protection: no second attempt is made of a call whose server may lack the layer.

use tonic_idempotency_client::{Reason, journal::JournalStore as _};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::prelude::*;
use super::{
    foreign::{Answer, order},
    harness::{Setup, Watched, key, keyed},
};

/// A new process with this journal.
async fn process(store: &Watched) -> Setup {
    let journal =
        Journal::builder().require_protection().on_outcome(async |_| {}).store(store.clone()).expect("a journal");
    Setup::new(journal).await
}

fn away() -> Answer {
    Answer::Error(Status::unavailable("away"))
}

#[tokio::test]
async fn makes_no_second_attempt_before_an_answer_has_shown_the_layer() {
    let refused = |reason: Reason| {
        let details = ErrorDetails::with_error_info(reason.as_str(), "tonic-idempotency", []);
        Answer::Error(Status::with_error_details(Code::InvalidArgument, "", details))
    };
    let mut kept = Status::not_found("");
    kept.metadata_mut().insert("idempotency-outcome", "kept".parse().expect("metadata"));
    let status = vec![("idempotency-status", "completed".to_owned())];
    for (answer, has_shown) in [
        (Answer::Headers(status), true),
        (Answer::Error(kept), true),
        (refused(Reason::KeyReused), true),
        (refused(Reason::KeyUnsupported), false),
        (Answer::Error(Status::not_found("")), false),
        (Answer::Headers(Vec::new()), false),
    ] {
        let mut setup = process(&Watched::default()).await;
        for (answer, calls) in [(away(), 1), (answer, 1), (away(), if has_shown { 2 } else { 1 })] {
            setup.server.answers([answer]);
            drop(setup.client.create_order(order("shop")).await);
            assert_eq!(setup.server.seen().len(), calls);
        }
    }
}

#[tokio::test]
async fn leaves_it_to_the_application_whether_the_next_process_sends_a_call() {
    let store = Watched::default();
    let mut first = process(&store).await;
    for (id, answers) in [("k-1", vec![away()]), ("k-2", vec![]), ("k-3", vec![away(), away(), away()])] {
        first.server.answers(answers);
        drop(first.client.create_order(keyed("shop", id)).await);
    }
    let server = first.server.clone();
    until("the end of k-2 is written", async || store.ids().is_ok_and(|ids| ids.len() == 2)).await;
    drop(first);
    server.seen();
    let next = async || Setup {
        server: server.clone(),
        ..Setup::with(server.clone(), process(&store).await.journal, |it| it).await
    };
    let seen = || server.seen().iter().map(|it| it.key().expect("a key").to_owned()).collect::<Vec<_>>();
    let second = next().await;
    let [failed, answered] = &second.journal.resume(second.service.clone()).await[..] else { panic!("two entries") };
    assert!(matches!(&failed.outcome, EntryOutcome::Failed(error) if error.code() == Code::FailedPrecondition));
    assert!(matches!(answered.outcome, EntryOutcome::Answered(_)), "{answered:?}");
    assert_eq!((seen(), second.keys().await), (vec!["k-3".to_owned()], vec!["k-1".to_owned()]));
    drop(second);
    let mut third = next().await;
    assert!(third.journal.resume(third.service.clone()).await.is_empty());
    // Each decision is for one attempt, as long as nothing else is known.
    for (answer, sent) in [(Some(away()), 1), (None, 0)] {
        if sent == 1 {
            third.journal.send_again(&key("k-1")).await.expect("an entry");
        }
        server.answers(answer);
        third.journal.resume(third.service.clone()).await;
        assert_eq!(seen().len(), sent);
    }
    assert!(third.client.create_order(keyed("shop", "k-1")).await.is_err() && seen().is_empty());
    third.journal.resume(third.service.clone()).await;
    third.journal.send_again(&key("k-1")).await.expect("an entry");
    third.journal.resume(third.service.clone()).await;
    assert_eq!((seen().len(), third.keys().await.len()), (1, 0));
}
