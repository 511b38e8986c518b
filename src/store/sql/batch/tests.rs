//! Tests of lanes: calls that are sent alone, queued and batched.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Builder,
    task::{JoinHandle, yield_now},
    time::Instant,
};

use super::{
    fake::{Call, CountKind, End, Fake},
    lane::{Lane, SendMode},
    queue::{MAX_STATEMENT, ROOM},
    slots::SLOW,
};
use crate::store::sql::{
    answers::{Fault, OperationProgress},
    connections::{Connections, Failure},
};

const MAX_BATCH: usize = 4;

type EnterResult<const WRITES: bool = false> = Result<SendMode<Fake, CountKind<WRITES>>, Failure>;

/// A database that counts, and a lane to it.
fn lane() -> (Fake, Lane<Fake, CountKind>) {
    let database = Fake::new();
    let lane = Lane::new("counted", &Connections::new(database.clone(), Arc::default()), MAX_BATCH);
    (database, lane)
}

async fn enter<const WRITES: bool>(lane: &Lane<Fake, CountKind<WRITES>>, call: Call) -> EnterResult<WRITES> {
    let progress = OperationProgress::new(Instant::now() + Duration::from_secs(3600), Arc::default()).into();
    lane.enter(&progress, || call).await
}

/// Sends a call alone. Its own statement is under way until the returned value is dropped.
async fn alone<const WRITES: bool>(lane: &Lane<Fake, CountKind<WRITES>>) -> SendMode<Fake, CountKind<WRITES>> {
    match enter(lane, Call::new(0)).await {
        Ok(turn @ SendMode::Alone(Some(_))) => turn,
        _ => panic!("it was not sent alone"),
    }
}

/// Queues the calls, in this order.
async fn queue<const WRITES: bool>(
    lane: &Lane<Fake, CountKind<WRITES>>,
    calls: impl IntoIterator<Item = Call>,
) -> Vec<JoinHandle<EnterResult<WRITES>>> {
    let mut queued = Vec::new();
    for call in calls {
        let before = lane.queued();
        let entering = lane.clone();
        queued.push(tokio::spawn(async move { enter(&entering, call).await }));
        until(|| lane.queued() > before).await;
    }
    queued
}

/// Queues the calls behind another, which then ends.
async fn queue_and_send<const WRITES: bool>(
    lane: &Lane<Fake, CountKind<WRITES>>,
    calls: impl IntoIterator<Item = Call>,
) -> Vec<JoinHandle<EnterResult<WRITES>>> {
    let first = alone(lane).await;
    let queued = queue(lane, calls).await;
    drop(first);
    queued
}

fn calls(count: u128) -> impl Iterator<Item = Call> {
    (1..=count).map(Call::new)
}

/// Returns, for each call, the size of the statement that it was sent with; 0 if it was in no batch.
async fn answers(queued: Vec<JoinHandle<EnterResult>>) -> Vec<usize> {
    let mut answers = Vec::new();
    for call in queued {
        match call.await.expect("it does not panic") {
            Ok(SendMode::Together(Some(size))) => answers.push(size),
            Ok(SendMode::Alone(Some(_))) => answers.push(0),
            _ => panic!("it was not answered together with others"),
        }
    }
    answers
}

/// Returns, for each call, the fault of the statement that it was sent with.
async fn faults<const WRITES: bool>(queued: Vec<JoinHandle<EnterResult<WRITES>>>) -> Vec<Option<Fault>> {
    let mut faults = Vec::new();
    for call in queued {
        match call.await.expect("it does not panic") {
            Err(Failure::Together { fault }) => faults.push(fault),
            _ => panic!("its statement did not fail"),
        }
    }
    faults
}

async fn until(condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        yield_now().await;
    }
    panic!("it does not come true");
}

#[tokio::test(start_paused = true)]
async fn one_caller_at_a_time_never_queues() {
    let (database, lane) = lane();
    for _ in 0..3 {
        drop(alone(&lane).await);
    }
    assert!(database.statements().is_empty());
}

/// The single statement costs less than a batch, and needs no task.
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_by_itself_goes_by_itself() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let mut queued = queue(&lane, calls(2)).await;
    let gone = queued.remove(0);
    gone.abort();
    assert!(gone.await.is_err());
    drop(first);
    let second = queued.remove(0).await.expect("it does not panic");
    assert!(matches!(second, Ok(SendMode::Alone(Some(_)))));
    let queued = queue(&lane, (3..=4).map(Call::new)).await;
    assert!(database.statements().is_empty());
    drop(second);
    database.end(1);
    assert_eq!(answers(queued).await, [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn while_calls_come_together_the_first_one_waits_for_those_that_are_ready() {
    let (database, lane) = lane();
    let queued = queue_and_send(&lane, calls(3)).await;
    database.end(1);
    assert_eq!(answers(queued).await, [3; 3]);
    let entering = |key| {
        let lane = lane.clone();
        tokio::spawn(async move { enter(&lane, Call::new(key)).await })
    };
    let ready: Vec<_> = (4..=6).map(entering).collect();
    database.end(1);
    assert_eq!(answers(ready).await, [3; 3]);
    // A call that comes by itself ends the waiting.
    drop(alone(&lane).await);
    let next = alone(&lane).await;
    assert_eq!(database.statements(), [[1, 2, 3], [4, 5, 6]]);
    drop(next);
}

/// The next caller gets its turn.
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_when_it_is_its_turn_holds_up_nobody() {
    let (_database, lane) = lane();
    let queued = queue_and_send(&lane, calls(1)).await;
    queued.iter().for_each(JoinHandle::abort);
    yield_now().await;
    drop(alone(&lane).await);
}

/// The operation ends at its deadline, and says that nothing was sent. The call leaves the queue a moment later.
#[tokio::test(start_paused = true)]
async fn a_call_whose_operation_has_ended_is_not_sent() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let progress = Arc::new(OperationProgress::new(Instant::now() + Duration::from_secs(3600), Arc::default()));
    let (entering, of_ended) = (lane.clone(), Arc::clone(&progress));
    let ended = tokio::spawn(async move { entering.enter(&of_ended, || Call::new(1)).await });
    until(|| lane.queued() == 1).await;
    let queued = queue(&lane, [Call::new(2)]).await;
    progress.ends();
    drop(first);
    database.end(1);
    assert_eq!(answers(queued).await, [1]);
    assert_eq!(database.statements(), [[2]]);
    assert!(!progress.is_sent());
    assert!(matches!(ended.await.expect("it does not panic"), Err(Failure::Together { fault: None })));
}

#[tokio::test(start_paused = true)]
async fn callers_go_together_with_the_next_statement_if_one_is_under_way() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let queued = queue(&lane, calls(3)).await;
    assert!(database.statements().is_empty());
    drop(first);
    until(|| database.sizes() == [3]).await;
    let others = queue(&lane, (4..=5).map(Call::new)).await;
    database.end(2);
    assert_eq!(answers(queued).await, [3; 3]);
    assert_eq!(answers(others).await, [2; 2]);
    drop(alone(&lane).await);
}

#[tokio::test(start_paused = true)]
async fn a_statement_does_at_most_as_many_calls_as_the_store_allows_in_the_order_of_their_arrival() {
    let (database, lane) = lane();
    let queued = queue_and_send(&lane, calls(10)).await;
    database.end(3);
    assert_eq!(answers(queued).await, [4, 4, 4, 4, 4, 4, 4, 4, 2, 2]);
    assert_eq!(database.statements(), [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9, 10]]);
}

#[tokio::test(start_paused = true)]
async fn a_statement_has_a_key_once_and_calls_of_one_group() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let other_group = Call { group: 1, ..Call::new(3) };
    let queued = queue(&lane, [Call::new(1), Call::new(1), other_group, Call::new(2)]).await;
    drop(first);
    database.end(2);
    assert_eq!(answers(queued).await, [2, 1, 0, 2]);
    assert_eq!(database.statements(), [vec![1, 2], vec![1]]);
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_a_statement_are_limited_and_a_call_that_has_more_goes_alone() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let half = |key| Call { bytes: MAX_STATEMENT / 2, ..Call::new(key) };
    let queued = queue(&lane, (1..=3).map(half)).await;
    let large = enter(&lane, Call { bytes: MAX_STATEMENT + 1, ..Call::new(4) }).await;
    assert!(matches!(large, Ok(SendMode::Alone(None))));
    drop(first);
    database.end(1);
    assert_eq!(answers(queued).await, [2, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_the_queue() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let mut queued = queue(&lane, calls(3)).await;
    let gone = queued.remove(1);
    gone.abort();
    assert!(gone.await.is_err());
    drop(first);
    database.end(1);
    assert_eq!(answers(queued).await, [2, 2]);
    assert_eq!(database.statements(), [vec![1, 3]]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_takes_a_call_only_in_the_place_of_one_that_has_gone_away() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    // As many bytes as the queue takes.
    let mut queued = queue(&lane, (1..=32).map(|key| Call { bytes: MAX_STATEMENT, ..Call::new(key) })).await;
    assert!(matches!(enter(&lane, Call::new(33)).await, Ok(SendMode::Alone(None))));
    let gone = queued.pop().expect("a call");
    gone.abort();
    assert!(gone.await.is_err());
    let entering = lane.clone();
    queued.push(tokio::spawn(async move { enter(&entering, Call::new(34)).await }));
    yield_now().await;
    drop(first);
    database.end(32);
    assert_eq!(answers(queued).await.len(), 32);
}

/// After a burst of calls, the queue keeps none of its memory.
#[tokio::test(start_paused = true)]
async fn the_memory_of_the_queue_is_given_back_when_it_is_empty() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let queued = queue(&lane, calls(1000)).await;
    assert!(lane.capacity() >= 1000);
    drop(first);
    database.end(250);
    assert_eq!(answers(queued).await.len(), 1000);
    assert!(lane.capacity() <= ROOM, "{}", lane.capacity());
}

#[tokio::test(start_paused = true)]
async fn a_slow_statement_holds_up_the_others_for_a_moment_and_only_so_many_run_at_once() {
    let (database, lane) = lane();
    let begun = Instant::now();
    let hung = alone(&lane).await;
    let mut queued = Vec::new();
    for batches in 1..=5 {
        queued.extend(queue(&lane, [2 * batches, 2 * batches + 1].map(Call::new)).await);
        tokio::time::sleep(SLOW + Duration::from_millis(1)).await;
        assert_eq!(database.sizes().len(), batches.min(4) as usize);
    }
    assert!(begun.elapsed() <= 10 * SLOW);
    database.end(5);
    assert_eq!(answers(queued).await, [2; 10]);
    drop(hung);
}

/// As if the server were far away.
#[tokio::test(start_paused = true)]
async fn several_statements_run_at_a_time_if_each_takes_long() {
    let (database, lane) = lane();
    let mut queued = queue_and_send(&lane, calls(2)).await;
    until(|| database.sizes() == [2]).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    database.end(1);
    assert_eq!(answers(queued.split_off(0)).await, [2; 2]);
    let mut under_way = Vec::new();
    for _ in 0..4 {
        under_way.push(alone(&lane).await);
    }
    queued.extend(queue(&lane, calls(2)).await);
    drop(under_way.pop());
    database.end(1);
    assert_eq!(answers(queued).await, [2; 2]);
}

/// The calls that queue behind the slow statement have no timers of their own.
#[tokio::test(start_paused = true)]
async fn a_statement_of_many_calls_that_is_slow_holds_up_those_behind_it_for_a_moment() {
    let (database, lane) = lane();
    let mut queued = queue_and_send(&lane, calls(3)).await;
    until(|| database.sizes() == [3]).await;
    let hung = queue(&lane, (4..=5).map(Call::new)).await;
    database.end(1);
    until(|| database.sizes() == [3, 2]).await;
    let behind = queue(&lane, (6..=7).map(Call::new)).await;
    tokio::time::sleep(SLOW + Duration::from_millis(1)).await;
    assert_eq!(database.sizes(), [3, 2, 2]);
    database.end(2);
    queued.extend(hung.into_iter().chain(behind));
    assert_eq!(answers(queued).await, [3, 3, 3, 2, 2, 2, 2]);
}

/// Statements that are sent alone do not hold up other calls, however many of these statements hang.
#[tokio::test(start_paused = true)]
async fn calls_go_alone_beside_others_that_are_slow() {
    let (database, lane) = lane();
    let mut hung = Vec::new();
    for _ in 0..10 {
        hung.push(alone(&lane).await);
        tokio::time::sleep(SLOW).await;
    }
    assert!(database.statements().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_statement_is_that_of_all_its_calls() {
    let table = [(End::Refusal, Fault::Refused, 0), (End::Cut, Fault::Lost, 1), (End::Panic, Fault::Lost, 1)];
    for (end, fault, closed) in table {
        let (database, lane) = lane();
        let queued = queue_and_send(&lane, calls(3)).await;
        database.end_with(end);
        assert_eq!(faults(queued).await, [Some(fault); 3]);
        assert_eq!(database.cancelled_and_closed(), (0, closed), "{fault:?}");
        drop(alone(&lane).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_statement_is_given_up_and_cancelled_after_its_share_of_the_timeout() {
    let (database, lane) = lane();
    let begun = Instant::now();
    let queued = queue_and_send(&lane, calls(2)).await;
    assert_eq!(faults(queued).await, [Some(Fault::Lost); 2]);
    assert_eq!(begun.elapsed(), Duration::from_millis(1250));
    until(|| database.cancelled_and_closed() == (1, 1)).await;
}

/// The server may have committed the statement, and may be waiting for a standby.
#[tokio::test(start_paused = true)]
async fn a_silent_statement_that_writes_is_given_up_and_not_cancelled() {
    let database = Fake::new();
    let connections = Connections::new(database.clone(), Arc::default());
    let lane = Lane::<_, CountKind<true>>::new("counted", &connections, 4);
    let queued = queue_and_send(&lane, calls(2)).await;
    assert_eq!(faults(queued).await, [Some(Fault::Lost); 2]);
    // It is answered later.
    assert_eq!(database.cancelled_and_closed(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_that_get_no_connection_go_alone_and_nothing_was_sent() {
    let (database, lane) = lane();
    let first = alone(&lane).await;
    let queued = queue(&lane, calls(6)).await;
    database.refuse_connections();
    drop(first);
    assert_eq!(faults(queued).await, [None; 6]);
}

/// The task ends because of a panic, or because its runtime ends.
#[test]
fn calls_go_alone_if_the_task_that_serves_them_ends() {
    let (database, lane) = lane();
    let [serving, calling] = [(); 2].map(|()| Builder::new_current_thread().enable_all().build().expect("a runtime"));
    let first = serving.block_on(alone(&lane));
    let queued = calling.block_on(queue(&lane, calls(6)));
    serving.block_on(async {
        drop(first);
        until(|| database.sizes() == [4]).await;
    });
    drop(serving);
    let lost = Some(Fault::Lost);
    assert_eq!(calling.block_on(faults(queued)), [lost, lost, lost, lost, None, None]);
    drop(calling.block_on(alone(&lane)));
}

#[test]
fn calls_go_alone_if_there_is_no_runtime_to_serve_them() {
    let (_database, lane) = lane();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let first = runtime.block_on(alone(&lane));
    let queued = runtime.block_on(queue(&lane, calls(2)));
    drop(first);
    assert_eq!(runtime.block_on(faults(queued)), [None; 2]);
}

#[tokio::test(start_paused = true)]
async fn each_call_goes_alone_if_a_statement_may_do_only_one() {
    let database = Fake::new();
    let lane = Lane::<_, CountKind>::new("counted", &Connections::new(database.clone(), Arc::default()), 1);
    for key in 0..3 {
        assert!(matches!(enter(&lane, Call::new(key)).await, Ok(SendMode::Alone(None))));
    }
}
