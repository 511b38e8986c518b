//! Random sequences of what a handler does with savepoints, each through any of its handles, compared with a small model.

use std::ops::Deref;

use fastrand::Rng;
use futures_util::FutureExt as _;
use tonic_idempotency::store::{CallSession, TransactionErrorKind};
use tonic_idempotency_tests::Database;

use crate::{Stack, patient, pool};

/// A driver whose savepoints are handles, of which several can be there at once.
#[expect(async_fn_in_trait, reason = "its futures are not sent to other threads")]
pub trait Savepoints: Stack<Connection = <Self as Stack>::Transaction> {
    /// Whether it is known what a future that was dropped has done, by how often it was polled.
    const IS_TOLD_BY_POLLS: bool;

    /// A savepoint, which is rolled back when it is dropped.
    type Savepoint: Deref<Target = Self::Transaction>;

    async fn savepoint(through: &Self::Transaction) -> Result<Self::Savepoint, Self::Error>;

    async fn commit(savepoint: Self::Savepoint) -> Result<(), Self::Error>;

    async fn roll_back(savepoint: Self::Savepoint) -> Result<(), Self::Error>;
}

const ENDED: Option<TransactionErrorKind> = Some(TransactionErrorKind::SavepointEnded);

/// Random sequences leave the rows that a simple model of savepoints predicts.
pub async fn leave_what_a_model_says<S: Savepoints>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE TABLE public.marks (mark integer NOT NULL); GRANT ALL ON public.marks TO PUBLIC";
    owner.batch_execute(make).await.expect("the table");
    let store = patient::<S>(pool::<S>(&database, 2));
    let mut ends = [0, 0];
    for seed in 0..150 {
        owner.batch_execute("TRUNCATE public.marks").await.expect("an empty table");
        let transaction = S::begin(&store, &CallSession::default()).await.expect("a transaction");
        let mut run = Run::<S>::new(seed, S::Transaction::clone(&transaction));
        for _ in 0..25 {
            run.step().await;
        }
        if run.random.bool() {
            run.steps.push("drop all".to_owned());
            for (frame, savepoint) in run.savepoints.drain(..) {
                drop(savepoint);
                run.model.drop(frame);
            }
        }
        // Those that are still there are committed.
        run.model.settle();
        let committed = transaction.commit().await.is_ok();
        let rows = owner.query("SELECT mark FROM public.marks ORDER BY mark", &[]).await.expect("the marks");
        let left = committed.then(|| rows.iter().map(|row| row.get(0)).collect());
        assert_eq!(left, run.model.committed(), "seed {seed}: {:#?}", run.steps);
        ends[usize::from(committed)] += 1;
    }
    assert!(ends.iter().all(|ends| *ends > 10), "{ends:?}: the sequences have lost their variety");
}

/// A random sequence on a real transaction and on the model.
struct Run<S: Savepoints> {
    random: Rng,
    transaction: S::Transaction,
    savepoints: Vec<(usize, S::Savepoint)>,
    model: Model,
    marks: i32,
    steps: Vec<String>,
}

impl<S: Savepoints> Run<S> {
    fn new(seed: u64, transaction: S::Transaction) -> Self {
        let random = Rng::with_seed(seed);
        Self { random, transaction, savepoints: Vec::new(), model: Model::new(), marks: 0, steps: Vec::new() }
    }

    /// One random operation. Its outcome has to be the model's.
    async fn step(&mut self) {
        match self.random.u8(0..100) {
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
    fn take(&mut self) -> (usize, S::Savepoint) {
        let index = self.random.usize(0..self.savepoints.len());
        self.savepoints.remove(index)
    }

    /// The handle of the transaction or of one of its savepoints.
    fn handle(&mut self) -> (usize, S::Transaction) {
        match self.random.usize(0..=self.savepoints.len()) {
            0 => (0, self.transaction.clone()),
            index => (self.savepoints[index - 1].0, S::Transaction::clone(&self.savepoints[index - 1].1)),
        }
    }

    /// How often the future of an end is polled: not, once, or until it is ready.
    fn polls(&mut self) -> u8 {
        if S::IS_TOLD_BY_POLLS { self.random.u8(0..4).min(2) } else { 2 }
    }

    fn assert_kind<T>(&self, outcome: Result<T, S::Error>, expected: Option<TransactionErrorKind>) {
        assert_eq!(outcome.err().map(|error| S::kind(&error)), expected, "{:#?}", self.steps);
    }

    async fn set(&mut self) {
        let (frame, handle) = self.handle();
        self.model.settle();
        let expected = self.model.answer(frame);
        self.steps.push(format!("savepoint through {frame}: {expected:?}"));
        match (expected, S::savepoint(&handle).await) {
            (None, Ok(savepoint)) => self.savepoints.push((self.model.push(), savepoint)),
            (expected, set) => self.assert_kind(set, expected),
        }
    }

    async fn write(&mut self) {
        let (frame, mut handle) = self.handle();
        self.marks += 1;
        let dropped = S::IS_TOLD_BY_POLLS && self.random.u8(0..5) == 0;
        self.steps.push(format!("write {} through {frame}, dropped {dropped}", self.marks));
        let was_due = self.model.settle();
        let expected = self.model.answer(frame);
        let insert = format!("INSERT INTO public.marks (mark) VALUES ({})", self.marks);
        if dropped {
            // The rollback that is due is sent first; then the statement is never sent.
            drop(S::execute(&mut handle, &insert).now_or_never());
            if was_due {
                return;
            }
        } else {
            self.assert_kind(S::execute(&mut handle, &insert).await, expected);
        }
        if expected.is_none() {
            self.model.top().marks.push(self.marks);
        }
    }

    async fn fail(&mut self) {
        let (frame, mut handle) = self.handle();
        self.steps.push(format!("fail through {frame}"));
        self.model.settle();
        let expected = self.model.answer(frame).or(Some(TransactionErrorKind::Refused));
        self.assert_kind(S::execute(&mut handle, "SELECT 1 / 0").await, expected);
        self.model.top().failed |= expected != ENDED;
    }

    async fn commit(&mut self) {
        let (frame, savepoint) = self.take();
        let polls = self.polls();
        self.steps.push(format!("commit {frame}, {polls} polls"));
        if polls == 0 {
            drop(S::commit(savepoint));
            return self.model.drop(frame);
        }
        let was_due = self.model.settle();
        let expected = self.model.answer(frame);
        if polls > 1 {
            self.assert_kind(S::commit(savepoint).await, expected);
        } else {
            drop(S::commit(savepoint).now_or_never());
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
        let polls = self.polls();
        self.steps.push(format!("roll back {frame}, {polls} polls"));
        if polls == 0 {
            drop(S::roll_back(savepoint));
            return self.model.drop(frame);
        }
        let was_due = self.model.settle();
        let expected = if self.model.position(frame).is_some() { None } else { ENDED };
        self.model.drop(frame);
        if polls > 1 {
            self.assert_kind(S::roll_back(savepoint).await, expected);
            self.model.settle();
        } else {
            drop(S::roll_back(savepoint).now_or_never());
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

    /// The kind of error of a statement through a handle.
    fn answer(&mut self, id: usize) -> Option<TransactionErrorKind> {
        match self.position(id) {
            None => ENDED,
            Some(_) => self.top().failed.then_some(TransactionErrorKind::Refused),
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
