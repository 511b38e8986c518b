//! The worker, which sends unfinished entries in the background.

use tokio::time::Instant;

use super::prelude::*;
use super::{
    foreign::{Answer, Foreign},
    harness::{Directory, Setup, in_memory, keyed},
};

fn quick() -> Journal {
    in_memory(|journal| journal.pauses(Duration::from_millis(1), Duration::from_millis(10)).parallelism(2))
}

#[tokio::test]
async fn sends_what_calls_and_an_earlier_process_have_left() {
    let directory = Directory::new();
    let mut setup = Setup::new(Journal::open(directory.file()).expect("a journal")).await;
    setup.leave(["k-1"]).await;
    let server = setup.server.clone();
    drop(setup);
    let journal = Journal::builder().pauses(Duration::from_millis(1), Duration::from_millis(10));
    let journal = journal.open(directory.file()).expect("a journal");
    let mut setup = Setup::with(server, journal, |layer| layer.max_attempts(1)).await;
    setup.server.seen();
    let worker = setup.journal.spawn(setup.service.clone());
    until("what was left is sent", async || setup.keys().await.is_empty()).await;
    setup.server.fails([Status::unavailable("away")]);
    setup.client.create_order(keyed("shop", "k-2")).await.expect_err("the server is away");
    until("what the call left is sent", async || setup.keys().await.is_empty()).await;
    let seen = setup.server.seen();
    assert_eq!(seen.iter().filter_map(|seen| seen.key()).collect::<Vec<_>>(), ["k-1", "k-2", "k-2"]);
    worker.shut_down().await;
}

#[tokio::test]
async fn pauses_longer_and_longer() {
    let journal = in_memory(|journal| journal.pauses(Duration::from_secs(1), Duration::from_secs(8)));
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.server.fails(std::iter::repeat_n(Status::unavailable("away"), 40));
    setup.client.create_order(keyed("shop", "k-1")).await.expect_err("the server is away");
    tokio::time::pause();
    let began = Instant::now();
    let worker = setup.journal.spawn(setup.service.clone());
    while !setup.keys().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // At most 1 + 2 + 4 + 37 * 8 seconds, and half of that on average.
    let waited = began.elapsed().as_secs();
    assert!((60..303).contains(&waited), "{waited} s");
    drop(worker);
}

#[tokio::test]
async fn leaves_calls_that_are_under_way_to_their_callers() {
    let setup = Setup::with(Foreign::default(), quick(), |layer| layer).await;
    let _worker = setup.journal.spawn(setup.service.clone());
    setup.server.answers([Answer::Nothing]);
    let mut client = setup.client.clone();
    let call = tokio::spawn(async move { client.create_order(keyed("shop", "k-1")).await });
    until("the call is under way", async || setup.server.seen().len() == 1).await;
    // The worker is at work meanwhile.
    let mut other = setup.client.clone();
    setup.server.answers([Answer::Nothing]);
    let dropped = tokio::spawn(async move { other.create_order(keyed("shop", "k-2")).await });
    until("the other is under way", async || setup.server.seen().len() == 1).await;
    dropped.abort();
    until("the other has ended", async || setup.keys().await == ["k-1"]).await;
    assert!(setup.server.seen().iter().all(|seen| seen.key() == Some("k-2")));
    call.abort();
    until("the first has ended, too", async || setup.keys().await.is_empty()).await;
}

#[tokio::test]
async fn sends_no_more_at_a_time_than_it_is_told() {
    let mut setup = Setup::with(Foreign::default(), quick(), |layer| layer.max_attempts(1)).await;
    setup.leave(["k-1", "k-2", "k-3", "k-4", "k-5"]).await;
    setup.server.answers([Answer::Nothing, Answer::Nothing]);
    let worker = setup.journal.spawn(setup.service.clone());
    let mut seen = 0;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        seen += setup.server.seen().len();
    }
    until("two are under way", async || {
        let entries = setup.journal.entries().await.expect("the entries");
        let under_way = entries.iter().filter(|entry| entry.state.as_str() == "under_way").count();
        assert!(under_way <= 2);
        under_way == 2
    })
    .await;
    assert!(seen <= 2, "{seen}");
    // The entries that it was sending when it was dropped stay.
    drop(worker);
    until("nothing is under way", async || {
        let entries = setup.journal.entries().await.expect("the entries");
        entries.len() == 5 && entries.iter().all(|entry| entry.state.as_str() == "waiting")
    })
    .await;
}

#[tokio::test]
async fn waits_for_the_answers_of_what_it_sends_when_it_is_shut_down() {
    let mut setup = Setup::with(Foreign::default(), quick(), |layer| layer.max_attempts(1)).await;
    setup.leave(["k-1"]).await;
    let (told, mut telling) = tokio::sync::mpsc::unbounded_channel();
    let (go, gone) = tokio::sync::watch::channel(false);
    let slow = tower::service_fn(move |request| {
        let (service, told, mut gone) = (setup.service.clone(), told.clone(), gone.clone());
        async move {
            told.send(()).expect("the test listens");
            gone.wait_for(|gone| *gone).await.expect("the test lives");
            tower::ServiceExt::oneshot(service, request).await
        }
    });
    let worker = setup.journal.spawn(slow);
    telling.recv().await.expect("it is sent");
    let shutting_down = tokio::spawn(worker.shut_down());
    assert!(!shutting_down.is_finished());
    go.send_replace(true);
    shutting_down.await.expect("no panic");
    assert!(setup.journal.entries().await.expect("the entries").is_empty());
}

/// Procedures that hang do not hold the others.
#[tokio::test]
async fn lets_others_go_on_beside_entries_that_hang() {
    let mut setup = Setup::with(Foreign::default(), quick(), |layer| layer.max_attempts(1)).await;
    let keys: Vec<_> = (0..9).map(|number| format!("k-{number}")).collect();
    setup.leave(&keys).await;
    setup.server.answers(std::iter::repeat_with(|| Answer::Nothing).take(8));
    tokio::time::pause();
    let began = Instant::now();
    let _worker = setup.journal.spawn(setup.service.clone());
    let mut sent = 0;
    while sent < keys.len() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        sent += setup.server.seen().len();
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// The interceptor that adds credentials is outside of the layer.
#[tokio::test]
async fn says_once_that_what_it_sends_has_no_credentials_and_sends_it_seldom() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let journal = in_memory(|journal| journal.pauses(Duration::from_millis(50), Duration::from_secs(60)));
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    setup.leave(["k-1", "k-2", "k-3"]).await;
    setup.server.fails(std::iter::repeat_n(Status::unauthenticated("who is it?"), 1000));
    tokio::time::pause();
    let worker = setup.journal.spawn(setup.service.clone());
    tokio::time::sleep(Duration::from_secs(300)).await;
    worker.shut_down().await;
    let sent = setup.server.seen().len();
    assert!((15..=36).contains(&sent), "{sent} in five minutes");
    let said = ["InterceptedService::new(channel, interceptor)", "credentials have expired"];
    assert_eq!((said.map(|text| lines.count(text)), setup.keys().await.len()), ([1, 1], 3));
}

/// No thread of its own writes meanwhile, as which the runtime would be idle, and its clock run ahead.
#[tokio::test(start_paused = true)]
async fn lets_a_paused_clock_stand_still_in_place() {
    let directory = Directory::new();
    let journal = Journal::builder().in_place().open(directory.file()).expect("a journal");
    let mut setup = Setup::with(Foreign::default(), journal, |layer| layer.max_attempts(1)).await;
    let began = Instant::now();
    setup.leave(["k-1"]).await;
    assert!(
        matches!(&setup.journal.resume(setup.service.clone()).await[..], [one] if matches!(one.outcome, EntryOutcome::Answered(_)))
    );
    assert_eq!(began.elapsed(), Duration::ZERO);
}
