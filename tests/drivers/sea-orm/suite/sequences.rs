//! Random sequences of what a handler does with nested transactions, compared with a small model.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use sea_orm::{ConnectionTrait as _, TransactionTrait as _};
use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_sea_orm::{OwnedTransaction, Savepoint, Transaction};

use crate::harness::{begin, kind, mark, marked, marks};

const ENDED: Option<TransactionErrorKind> = Some(TransactionErrorKind::SavepointEnded);
const REFUSED: Option<TransactionErrorKind> = Some(TransactionErrorKind::Refused);

/// The levels that are open, the innermost last, each with its number and its marks.
struct Model {
    open: Vec<(usize, Vec<i32>)>,
    has_failed: bool,
    levels: usize,
}

impl Model {
    fn new() -> Self {
        Self { open: vec![(0, Vec::new())], has_failed: false, levels: 1 }
    }

    fn position(&self, level: usize) -> Option<usize> {
        self.open.iter().position(|(open, _)| *open == level)
    }

    /// The error that a statement of this level's handle has to return; `None` if it succeeds.
    fn answer(&self, level: usize) -> Option<TransactionErrorKind> {
        match self.position(level) {
            None => ENDED,
            Some(_) if self.has_failed => REFUSED,
            Some(_) => None,
        }
    }

    fn roll_back(&mut self, level: usize) {
        if let Some(position) = self.position(level) {
            self.open.truncate(position);
            self.has_failed = false;
        }
    }

    fn commit(&mut self, level: usize) {
        if self.has_failed {
            return self.roll_back(level);
        }
        if let Some(position) = self.position(level) {
            let kept: Vec<_> = self.open.drain(position..).flat_map(|(_, marks)| marks).collect();
            self.open[position - 1].1.extend(kept);
        }
    }
}

/// A transaction, its savepoints that have handles, and what they should be.
struct Run {
    transaction: OwnedTransaction,
    savepoints: Vec<(usize, Savepoint)>,
    model: Model,
    next_mark: i32,
}

impl Run {
    async fn step(&mut self, random: &mut StdRng) {
        let chosen = random.random_range(0..=self.savepoints.len());
        let (level, handle) = match self.savepoints.get(chosen) {
            Some((level, savepoint)) => (*level, Transaction::clone(savepoint)),
            None => (0, Transaction::clone(&self.transaction)),
        };
        let expected = self.model.answer(level);
        match random.random_range(0..14) {
            0..4 => self.begin(level, &handle).await,
            4..8 => {
                self.next_mark += 1;
                assert_eq!(kind(mark(&handle, self.next_mark).await), expected);
                if expected.is_none() {
                    self.model.open.last_mut().expect("the transaction").1.push(self.next_mark);
                }
            }
            8 => {
                let failed = handle.execute_unprepared("SELECT 1 / 0").await;
                assert_eq!(kind(failed), expected.or(REFUSED));
                self.model.has_failed |= expected.is_none();
            }
            _ if chosen == self.savepoints.len() => {}
            end => {
                let (level, savepoint) = self.savepoints.swap_remove(chosen);
                match end {
                    9..11 => {
                        assert_eq!(kind(savepoint.commit().await), expected);
                        self.model.commit(level);
                    }
                    11..13 => {
                        let expected = self.model.position(level).map_or(ENDED, |_| None);
                        assert_eq!(kind(savepoint.rollback().await), expected);
                        self.model.roll_back(level);
                    }
                    _ => {
                        drop(savepoint);
                        self.model.roll_back(level);
                    }
                }
            }
        }
    }

    async fn begin(&mut self, level: usize, handle: &Transaction) {
        let begun = handle.begin().await;
        let expected = self.model.answer(level);
        match begun {
            Ok(savepoint) => {
                assert_eq!(expected, None);
                self.savepoints.push((self.model.levels, savepoint));
                self.model.open.push((self.model.levels, Vec::new()));
                self.model.levels += 1;
            }
            Err(error) => assert_eq!(kind(Err::<(), _>(error)), expected),
        }
    }
}

#[tokio::test]
async fn leave_what_a_model_says() {
    let (_database, owner, connection) = marked().await;
    let (mut committed, mut refused) = (0, 0);
    for seed in 0..150 {
        let random = &mut StdRng::seed_from_u64(seed);
        let mut run =
            Run { transaction: begin(&connection).await, savepoints: Vec::new(), model: Model::new(), next_mark: 0 };
        for _ in 0..random.random_range(1..40) {
            run.step(random).await;
        }
        let Run { transaction, savepoints, mut model, .. } = run;
        if random.random() {
            for (level, savepoint) in savepoints {
                drop(savepoint);
                model.roll_back(level);
            }
            assert_eq!(transaction.commit().await.is_err(), model.has_failed, "seed {seed}");
        } else {
            // Levels that are still open are committed.
            assert_eq!(transaction.commit().await.is_err(), model.has_failed, "seed {seed}");
        }
        let mut expected: Vec<_> = model.open.into_iter().flat_map(|(_, marks)| marks).collect();
        if model.has_failed {
            refused += 1;
            expected.clear();
        } else {
            committed += 1;
        }
        expected.sort_unstable();
        assert_eq!(marks(&owner).await, expected, "seed {seed}");
        owner.batch_execute("DELETE FROM public.marks").await.expect("an empty table");
    }
    assert!(committed > 20 && refused > 20, "{committed} and {refused}: the sequences have lost their variety");
}
