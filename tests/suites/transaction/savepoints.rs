//! Savepoints: the rows that each of their ends leaves, whenever its future is dropped.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tonic_idempotency::store::{Savepoint, Store as _, StoreTransaction, TransactionOptions};

use crate::prelude::*;

/// When the future of a savepoint's end is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    BeforeItIsPolled,
    /// The end of another savepoint is sent, and has to be answered before.
    BehindAnother,
    OnceSent,
}

const DROPPED: [Dropped; 3] = [Dropped::BeforeItIsPolled, Dropped::BehindAnother, Dropped::OnceSent];

impl Dropped {
    async fn drop(self, savepoint: &Transaction, end: impl Future) {
        match self {
            Self::BeforeItIsPolled => drop(end),
            Self::BehindAnother => {
                drop(savepoint.savepoint().await.expect("a savepoint"));
                drop(end.now_or_never());
            }
            Self::OnceSent => drop(end.now_or_never()),
        }
    }
}

/// A transaction as a handler has it, and the engine's side of it.
struct Open {
    engine: Box<dyn StoreTransaction>,
    transaction: Transaction,
}

impl Open {
    async fn begin(store: &PostgresStore) -> Self {
        let begun = store.begin_without_key(None, &CallSession::default(), TransactionOptions::default()).await;
        let engine = begun.expect("a transaction");
        let mut extensions = http::Extensions::new();
        engine.hand_out(&mut extensions);
        Self { engine, transaction: Transaction::from_extensions(&extensions).expect("a transaction") }
    }

    /// Commits, and returns the marks that are left in the table.
    async fn commit(self, owner: &Client) -> Option<Vec<i32>> {
        self.engine.commit(None).await.ok()?;
        Some(marks(owner).await)
    }
}

/// A database with an empty table of marks.
async fn database() -> (Database, Client, PostgresStore) {
    let (database, owner) = Database::with_owner().await;
    let make = "CREATE TABLE public.marks (mark integer NOT NULL); GRANT ALL ON public.marks TO PUBLIC";
    owner.batch_execute(make).await.expect("the table");
    let store = database.store();
    (database, owner, store)
}

async fn begun() -> (Database, Client, Open) {
    let (database, owner, store) = database().await;
    let open = Open::begin(&store).await;
    (database, owner, open)
}

async fn marks(owner: &Client) -> Vec<i32> {
    let rows = owner.query("SELECT mark FROM public.marks ORDER BY mark", &[]).await.expect("the marks");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn mark(transaction: &Transaction, mark: i32) -> Result<(), TransactionError> {
    let insert = "INSERT INTO public.marks (mark) VALUES ($1)";
    transaction.execute_typed(insert, &[(&mark, Type::INT4)]).await.map(drop)
}

fn kind<T>(outcome: Result<T, TransactionError>) -> Option<TransactionErrorKind> {
    outcome.err().map(|error| error.kind())
}

const ENDED: Option<TransactionErrorKind> = Some(TransactionErrorKind::SavepointEnded);

/// The transaction lives.
#[tokio::test]
async fn an_end_whose_future_is_dropped_rolls_back_unless_it_is_a_commit_that_was_sent() {
    for (dropped, commits) in DROPPED.into_iter().flat_map(|dropped| [(dropped, true), (dropped, false)]) {
        let (_database, owner, open) = begun().await;
        mark(&open.transaction, 1).await.expect("a mark");
        let savepoint = open.transaction.savepoint().await.expect("a savepoint");
        mark(&savepoint, 2).await.expect("a mark");
        let handle = Transaction::clone(&savepoint);
        match commits {
            true => dropped.drop(&handle, savepoint.commit()).await,
            false => dropped.drop(&handle, savepoint.roll_back()).await,
        }
        mark(&open.transaction, 3).await.expect("a mark");
        let left = if commits && dropped == Dropped::OnceSent { vec![1, 2, 3] } else { vec![1, 3] };
        assert_eq!(open.commit(&owner).await, Some(left), "{dropped:?}, commits: {commits}");
    }
}

#[tokio::test]
async fn one_whose_future_is_dropped_is_not_left_behind() {
    let (_database, owner, open) = begun().await;
    drop(open.transaction.savepoint().now_or_never());
    mark(&open.transaction, 1).await.expect("a mark");
    assert_eq!(open.commit(&owner).await, Some(vec![1]));
}

#[tokio::test]
async fn an_outer_one_that_is_dropped_first_takes_the_inner_ones_along() {
    for dropped in [false, true] {
        let (_database, owner, open) = begun().await;
        let outer = open.transaction.savepoint().await.expect("a savepoint");
        mark(&outer, 1).await.expect("a mark");
        let inner = outer.savepoint().await.expect("a savepoint");
        mark(&inner, 2).await.expect("a mark");
        drop(outer);
        if dropped {
            drop(inner);
        } else {
            assert_eq!(kind(mark(&inner, 3).await), ENDED);
            assert_eq!(kind(inner.commit().await), ENDED);
        }
        mark(&open.transaction, 4).await.expect("the transaction lives");
        assert_eq!(open.commit(&owner).await, Some(vec![4]));
    }
}

#[tokio::test]
async fn an_outer_one_that_is_committed_or_rolled_back_ends_the_inner_ones() {
    for (commits, left) in [(true, vec![1, 2, 5]), (false, vec![5])] {
        let (_database, owner, open) = begun().await;
        let outer = open.transaction.savepoint().await.expect("a savepoint");
        mark(&outer, 1).await.expect("a mark");
        let [used, rolled_back, committed, dropped] = [
            outer.savepoint().await.expect("a savepoint"),
            outer.savepoint().await.expect("a savepoint"),
            outer.savepoint().await.expect("a savepoint"),
            outer.savepoint().await.expect("a savepoint"),
        ];
        mark(&dropped, 2).await.expect("a mark");
        let helper = Transaction::clone(&used);
        if commits { outer.commit().await } else { outer.roll_back().await }.expect("an end");
        assert_eq!(kind(mark(&used, 3).await), ENDED);
        assert_eq!(kind(mark(&helper, 4).await), ENDED);
        assert_eq!(kind(used.savepoint().await), ENDED);
        assert_eq!(kind(rolled_back.roll_back().await), ENDED);
        assert_eq!(kind(committed.commit().await), ENDED);
        drop(dropped);
        mark(&open.transaction, 5).await.expect("the transaction lives");
        assert_eq!(open.commit(&owner).await, Some(left));
    }
}

/// Each clone takes savepoints of its own, all at once: they nest in the order in which the server gets them.
#[tokio::test]
async fn clones_that_take_savepoints_at_once_do_not_kill_the_transaction() {
    let (_database, owner, open) = begun().await;
    let helpers = (0..8).map(|helper| {
        let transaction = open.transaction.clone();
        tokio::spawn(async move {
            for round in 0..16 {
                // Ended by the savepoint of another clone, perhaps.
                let Ok(savepoint) = transaction.savepoint().await else { continue };
                let _ = mark(&savepoint, 1000 + helper).await;
                match round % 3 {
                    0 => drop(savepoint),
                    1 => drop(savepoint.commit().await),
                    _ => drop(savepoint.roll_back().await),
                }
            }
        })
    });
    for helper in helpers.collect::<Vec<_>>() {
        helper.await.expect("no panic");
    }
    mark(&open.transaction, 1).await.expect("the transaction lives");
    assert_eq!(open.commit(&owner).await.expect("it is committed").first(), Some(&1));
}

/// Random sequences leave the rows that a simple model of savepoints predicts.
#[tokio::test]
async fn random_sequences_leave_what_the_model_says() {
    let (_database, owner, store) = database().await;
    for seed in 0..150 {
        owner.batch_execute("TRUNCATE public.marks").await.expect("an empty table");
        let open = Open::begin(&store).await;
        let mut run = Run::new(seed, open.transaction.clone());
        for _ in 0..25 {
            run.step().await;
        }
        run.model.settle();
        assert_eq!(open.commit(&owner).await, run.model.committed(), "seed {seed}: {:#?}", run.steps);
    }
}

/// A random sequence on a real transaction and on the model.
struct Run {
    random: StdRng,
    transaction: Transaction,
    savepoints: Vec<(usize, Savepoint)>,
    model: Model,
    marks: i32,
    steps: Vec<String>,
}

impl Run {
    fn new(seed: u64, transaction: Transaction) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { random, transaction, savepoints: Vec::new(), model: Model::new(), marks: 0, steps: Vec::new() }
    }

    /// One random operation. Its outcome has to be the model's.
    async fn step(&mut self) {
        let step = self.random.random_range(0..100);
        match step {
            0..25 => self.set().await,
            25..55 => self.write().await,
            55..60 => self.fail().await,
            _ if self.savepoints.is_empty() => self.write().await,
            60..72 => self.commit().await,
            72..84 => self.roll_back().await,
            _ => {
                let (frame, savepoint) = self.take();
                self.steps.push(format!("drop {frame}"));
                self.model.drop(frame);
                drop(savepoint);
            }
        }
    }

    /// One of the savepoints, which need not be the innermost.
    fn take(&mut self) -> (usize, Savepoint) {
        let index = self.random.random_range(0..self.savepoints.len());
        self.savepoints.remove(index)
    }

    /// The handle of the transaction or of one of its savepoints.
    fn handle(&mut self) -> (usize, Transaction) {
        match self.random.random_range(0..=self.savepoints.len()) {
            0 => (0, self.transaction.clone()),
            index => (self.savepoints[index - 1].0, Transaction::clone(&self.savepoints[index - 1].1)),
        }
    }

    async fn set(&mut self) {
        let (frame, handle) = self.handle();
        self.model.settle();
        let expected = self.model.answer(frame);
        let set = handle.savepoint().await;
        self.steps.push(format!("savepoint through {frame}: {expected:?}"));
        match (expected, set) {
            (None, Ok(savepoint)) => self.savepoints.push((self.model.push(), savepoint)),
            (expected, set) => assert_eq!(kind(set), expected, "{:#?}", self.steps),
        }
    }

    async fn write(&mut self) {
        let (frame, handle) = self.handle();
        self.marks += 1;
        let dropped = self.random.random_bool(0.2);
        self.steps.push(format!("write {} through {frame}, dropped {dropped}", self.marks));
        let was_due = self.model.settle();
        let expected = self.model.answer(frame);
        if dropped {
            // The rollback that is due is sent first; then the statement is never sent.
            drop(mark(&handle, self.marks).now_or_never());
            if was_due {
                return;
            }
        } else {
            assert_eq!(kind(mark(&handle, self.marks).await), expected, "{:#?}", self.steps);
        }
        if expected.is_none() {
            self.model.top().marks.push(self.marks);
        }
    }

    async fn fail(&mut self) {
        let (frame, handle) = self.handle();
        self.steps.push(format!("fail through {frame}"));
        self.model.settle();
        let ended = self.model.answer(frame) == ENDED;
        handle.batch_execute("SELECT 1 / 0").await.expect_err("a division by zero");
        if !ended {
            self.model.top().failed = true;
        }
    }

    async fn commit(&mut self) {
        let (frame, savepoint) = self.take();
        let polls = self.random.random_range(0..4);
        self.steps.push(format!("commit {frame}, {polls} polls"));
        if polls == 0 {
            drop(savepoint.commit());
            return self.model.drop(frame);
        }
        let was_due = self.model.settle();
        let expected = self.model.answer(frame);
        if polls > 1 {
            assert_eq!(kind(savepoint.commit().await), expected, "{:#?}", self.steps);
        } else {
            drop(savepoint.commit().now_or_never());
            if was_due {
                return self.model.drop(frame);
            }
        }
        match expected {
            ENDED => {}
            Some(_) if polls > 1 => self.model.drop(frame),
            _ => self.model.release(frame),
        }
    }

    async fn roll_back(&mut self) {
        let (frame, savepoint) = self.take();
        let polls = self.random.random_range(0..4);
        self.steps.push(format!("roll back {frame}, {polls} polls"));
        if polls == 0 {
            drop(savepoint.roll_back());
            return self.model.drop(frame);
        }
        let was_due = self.model.settle();
        let expected = if self.model.is_open(frame) { None } else { ENDED };
        self.model.drop(frame);
        if polls > 1 {
            assert_eq!(kind(savepoint.roll_back().await), expected, "{:#?}", self.steps);
            self.model.settle();
        } else {
            drop(savepoint.roll_back().now_or_never());
            // Else it is sent before the next statement.
            if !was_due {
                self.model.settle();
            }
        }
    }
}

/// The expected effects of a transaction's statements: new marks belong to the innermost savepoint.
struct Model {
    frames: Vec<Frame>,
    next: usize,
}

#[derive(Default)]
struct Frame {
    id: usize,
    marks: Vec<i32>,
    /// A statement has failed in it.
    failed: bool,
    dropped: bool,
}

impl Model {
    fn new() -> Self {
        Self { frames: vec![Frame::default()], next: 1 }
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the transaction itself")
    }

    fn position(&self, id: usize) -> Option<usize> {
        self.frames.iter().position(|frame| frame.id == id)
    }

    fn is_open(&self, id: usize) -> bool {
        self.position(id).is_some()
    }

    /// The kind of error of a statement through a handle.
    fn answer(&mut self, id: usize) -> Option<TransactionErrorKind> {
        match self.is_open(id) {
            false => ENDED,
            true => self.top().failed.then_some(TransactionErrorKind::Refused),
        }
    }

    fn push(&mut self) -> usize {
        let id = self.next;
        self.next += 1;
        self.frames.push(Frame { id, ..Frame::default() });
        id
    }

    fn drop(&mut self, id: usize) {
        if let Some(position) = self.position(id) {
            self.frames[position].dropped = true;
        }
    }

    /// Rolls back to the outermost savepoint that was dropped; returns whether there was one.
    fn settle(&mut self) -> bool {
        let dropped = self.frames.iter().position(|frame| frame.dropped);
        self.frames.truncate(dropped.unwrap_or(self.frames.len()));
        dropped.is_some()
    }

    /// The savepoint and all inside of it become part of what is around them.
    fn release(&mut self, id: usize) {
        let Some(position) = self.position(id) else { return };
        for inner in self.frames.split_off(position) {
            self.top().marks.extend(inner.marks);
            self.top().failed |= inner.failed;
        }
    }

    /// The marks that COMMIT leaves; `None` if it fails.
    fn committed(&self) -> Option<Vec<i32>> {
        if self.frames.iter().any(|frame| frame.failed) {
            return None;
        }
        let mut marks: Vec<_> = self.frames.iter().flat_map(|frame| frame.marks.iter().copied()).collect();
        marks.sort_unstable();
        Some(marks)
    }
}
