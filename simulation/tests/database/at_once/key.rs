//! The life of a key: rounds of operations at once, each of which has to be explained.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    time::Duration,
};

use futures_util::future::{join, join_all};
use tokio::{sync::Semaphore, time::Instant};
use tonic_idempotency::store::{
    BeginOutcome, CallSession, Claim, LookUp, Reservation, SqlStore, Store as _, StoreTransaction, TransactionOptions,
};
use tonic_idempotency_tests::until;
use uuid::Uuid;

use super::{
    counted::Counted,
    explanation::explain,
    model::{Model, found, record_found},
    operation::{Done, Draws, IDLE, Operation, describe},
    subject::{GoStatement, StoredRow, Subject},
};

/// The most operations at once, and the most transactions of a key.
const MOST: usize = 5;
pub(super) const TRANSACTIONS: usize = 2;

/// How long a row is held at most, until enough calls wait for it.
const HELD: Duration = Duration::from_millis(200);

/// The time after which the store may have sent an operation twice.
const SENT_AGAIN: Duration = Duration::from_millis(1500);

/// The operations of one call, one after the other, and the number of its store.
type Call = (usize, Vec<Operation>);

/// A key that several servers work on.
pub(super) struct Key<'a, S: Subject> {
    pub(super) subject: &'a S,
    /// The keys that may have transactions: each waits for a permit of its store, while it has others.
    pub(super) tickets: &'a Semaphore,
    pub(super) draws: RefCell<Draws<'a>>,
    /// Counts the beginnings and ends of operations.
    pub(super) clock: Cell<u64>,
    pub(super) open: RefCell<HashMap<Uuid, Box<dyn StoreTransaction>>>,
    /// The tokens of all transactions.
    pub(super) transactions: RefCell<Vec<Uuid>>,
}

impl<S: Subject> Key<'_, S> {
    /// Returns the number of operations, or the story of a round that no order explains. The life ends with a round in which an operation has
    /// taken so long that it may have been sent twice: a machine may be that busy.
    pub(super) async fn live(self) -> Result<usize, String> {
        let (owner, key, resources) = {
            let draws = self.draws.borrow();
            (draws.owner, draws.key, draws.resources)
        };
        let mut models = vec![Model::new()];
        let (mut claims, mut holder) = (Vec::new(), None);
        let ticket = self.tickets.try_acquire().ok();
        let (mut story, mut operations) = (Vec::new(), 0);
        let rounds = self.draws.borrow_mut().random.usize(3..=6);
        for round in 0..rounds {
            let calls = self.draw(round, &mut claims, holder, ticket.is_some());
            let is_held = round > 0 && self.draws.borrow_mut().once_in(3);
            let hold = if is_held { self.subject.hold(owner, key).await } else { None };
            let was_held = if hold.is_some() { ", while the row is held" } else { "" };
            let done = match hold {
                None => join_all(calls.into_iter().map(|call| self.carry_out(call))).await,
                Some(hold) => self.carry_out_beside(hold, calls).await,
            };
            if done.iter().flatten().any(|done| done.took >= SENT_AGAIN) {
                self.subject.servers().counts.add("ended early");
                break;
            }
            operations += done.iter().map(Vec::len).sum::<usize>();
            let row = self.subject.row(owner, key).await;
            let ours = row.as_ref().filter(|row| !row.is_foreign);
            holder = ours.map(|row| Reservation { owner, key, token: row.record.token });
            let row = row.as_ref().map(StoredRow::describe);
            let after = explain(&models, &done, row.as_deref(), resources);
            story.push(format!("round {round}{was_held}: {done:#?}\nleave {row:?}"));
            if after.is_empty() || !S::FAILS && done.iter().flatten().any(Done::has_lost) {
                return Err(format!("no order explains the last round:\n{}", story.join("\n")));
            }
            models = after;
        }
        let left: Vec<_> = self.open.borrow_mut().drain().map(|(_, transaction)| transaction).collect();
        for transaction in left {
            transaction.roll_back().await;
        }
        Ok(operations)
    }

    /// Draws the calls of a round, many of which are about the reservation that has the key.
    fn draw(
        &self,
        round: usize,
        claims: &mut Vec<Claim>,
        holder: Option<Reservation>,
        has_transactions: bool,
    ) -> Vec<Call> {
        let (mut calls, mut operations) = (Vec::new(), 0);
        let (mut draws, mut transactions) = (self.draws.borrow_mut(), self.transactions.borrow_mut());
        // The last call may have two.
        let least = if round == 0 { 1 } else { draws.random.usize(2..MOST) };
        let mut open: Vec<Uuid> = self.open.borrow().keys().copied().collect();
        open.sort_unstable();
        let mut begun = open.len();
        // Of a new key, since a look answers later.
        let begins = if round == 0 { 0..16 } else { 7..15 };
        while operations < least {
            let of = claims.len().checked_sub(1 + draws.random.usize(..3)).map(|at: usize| claims[at].clone());
            let call = match (draws.random.u8(..26), of) {
                (0..7, Some(of)) => {
                    let of = holder.filter(|_| !draws.once_in(4)).unwrap_or(of.reservation);
                    vec![draws.on_reservation(of)]
                }
                (24.., Some(of)) => {
                    // As an attempt that comes late.
                    let held = claims.iter().find(|it| holder == Some(it.reservation)).cloned();
                    let of = held.unwrap_or(of);
                    if transactions.contains(&of.reservation.token) {
                        continue;
                    }
                    vec![Operation::Claim(of)]
                }
                (7..10, _) if !open.is_empty() => {
                    let token = open.swap_remove(draws.random.usize(..open.len()));
                    let claim = claims.iter().find(|claim| claim.reservation.token == token);
                    vec![end(&mut draws, claim.expect("it was drawn"))]
                }
                (number, _) if has_transactions && begun < TRANSACTIONS && begins.contains(&number) => {
                    begun += 1;
                    let claim = draws.claim();
                    let end = (!draws.once_in(3)).then(|| end(&mut draws, &claim));
                    transactions.push(claim.reservation.token);
                    claims.push(claim.clone());
                    [Operation::Begin(claim)].into_iter().chain(end).collect()
                }
                (15 | 16, _) => {
                    let claim = draws.claim();
                    let end = draws.one_of(&[GoStatement::Complete, GoStatement::Delete]);
                    vec![Operation::Go(claim.clone(), GoStatement::Reserve), Operation::Go(claim, end)]
                }
                (17, _) => vec![Operation::LookUp { with_status: draws.random.bool() }],
                (18, _) if draws.once_in(3) => vec![Operation::Abandoned(draws.search())],
                (18, _) => vec![Operation::Sweep(draws.random.u32(1..8))],
                _ => {
                    let claim = draws.claim();
                    let end = draws.random.bool().then(|| draws.on_reservation(claim.reservation));
                    claims.push(claim.clone());
                    [Operation::Claim(claim)].into_iter().chain(end).collect()
                }
            };
            operations += call.len();
            calls.push((draws.random.usize(..self.subject.servers().stores.len()), call));
        }
        calls
    }

    /// Carries out calls while their row is held, until several wait for it.
    async fn carry_out_beside(&self, hold: S::Hold, calls: Vec<Call>) -> Vec<Vec<Done>> {
        let (of, ended) = (calls.len(), Cell::new(0));
        let wanted = self.draws.borrow_mut().random.usize(1..=3).min(of);
        let carried_out = join_all(calls.into_iter().map(|call| async {
            let done = self.carry_out(call).await;
            ended.set(ended.get() + 1);
            done
        }));
        let letting_go = async {
            let (since, waiting) = (Instant::now(), Cell::new(0));
            until("calls wait for the row, or have ended", async || {
                waiting.set(self.subject.waiting(&hold).await);
                waiting.get() >= wanted || ended.get() == of || since.elapsed() >= HELD
            })
            .await;
            self.subject.let_go(hold).await;
            self.subject.servers().counts.add(&format!("held with {} waiting", waiting.get().min(3)));
        };
        join(carried_out, letting_go).await.0
    }

    async fn carry_out(&self, (number, operations): Call) -> Vec<Done> {
        let (store, mut done) = (&self.subject.servers().stores[number], Vec::<Done>::new());
        for operation in operations {
            // Only the call that has the key ends what it has begun.
            let is_end = matches!(operation, Operation::Commit(..) | Operation::RollBack(_));
            let has_begun =
                done.last().is_none_or(|last| last.answer.starts_with("open") || last.answer == "Some(true)");
            if (is_end || matches!(operation, Operation::Go(..))) && !has_begun {
                break;
            }
            let (began, since) = (self.tick(), Instant::now());
            let answer = self.answer(store, &operation).await;
            let (ended, took) = (self.tick(), since.elapsed());
            done.push(Done { operation, store: number, began, ended, took, answer });
        }
        done
    }

    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    async fn answer(&self, store: &SqlStore<Counted<S::Pool>>, operation: &Operation) -> String {
        let answer = match operation {
            Operation::Abandon(reservation) => store.abandon(reservation).await.map(|it| format!("{it:?}")),
            Operation::Abandoned(search) => store.abandoned(search).await.map(|all| {
                let (owner, key) = self.id();
                let one = all.iter().find(|it| it.owner == owner && it.key == key);
                one.map_or("not found".to_owned(), |it| found(&it.procedure, &it.request))
            }),
            Operation::Begin(claim) => {
                let options = TransactionOptions { idle: IDLE, savepoint: true, ..TransactionOptions::default() };
                match store.begin(claim, options).await {
                    Ok(BeginOutcome::Open { transaction, taken_over }) => {
                        self.open.borrow_mut().insert(claim.reservation.token, transaction);
                        Ok(format!("open {taken_over}"))
                    }
                    Ok(BeginOutcome::Refused(outcome)) => Ok(describe(&outcome)),
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => Err(error),
                }
            }
            Operation::Claim(claim) => store.claim(claim).await.map(|outcome| describe(&outcome)),
            Operation::Commit(claim, completion) => {
                self.taken(claim).commit(completion.clone()).await.map(|outcome| format!("{outcome:?}"))
            }
            Operation::Complete(reservation, completion) => {
                store.complete(reservation, completion).await.map(|outcome| format!("{outcome:?}"))
            }
            Operation::Extend(reservation, lease) => {
                store.extend(reservation, *lease).await.map(|outcome| format!("{outcome:?}"))
            }
            Operation::Go(claim, statement) => Ok(format!("{:?}", self.subject.run_as_go(claim, *statement).await)),
            Operation::LookUp { with_status } => {
                let ((owner, key), session) = (self.id(), CallSession::default());
                store.look_up(&LookUp { owner, key, session, with_status: *with_status }).await.map(|it| {
                    let (state, status) = (format!("{:?}", it.state), it.status);
                    let times = [it.completed.is_some(), it.expires.is_some()];
                    record_found(&state, it.procedure.as_deref(), it.resource.as_ref(), &status, times)
                })
            }
            Operation::Release(reservation) => store.release(reservation).await.map(|it| format!("{it:?}")),
            Operation::RollBack(claim) => {
                self.taken(claim).roll_back().await;
                Ok("rolled back".to_owned())
            }
            Operation::Sweep(batch) => store.sweep(*batch).await.map(|_| "swept".to_owned()),
        };
        answer.unwrap_or_else(|error| format!("error {:?}", error.kind()))
    }

    fn id(&self) -> (tonic_idempotency::OwnerId, tonic_idempotency::KeyId) {
        let draws = self.draws.borrow();
        (draws.owner, draws.key)
    }

    fn taken(&self, claim: &Claim) -> Box<dyn StoreTransaction> {
        let Reservation { token, .. } = claim.reservation;
        self.open.borrow_mut().remove(&token).expect("it is open")
    }
}

/// Draws the end of a transaction.
fn end(draws: &mut Draws<'_>, claim: &Claim) -> Operation {
    if draws.once_in(5) {
        return Operation::RollBack(claim.clone());
    }
    let completion = (!draws.once_in(8)).then(|| draws.completion());
    Operation::Commit(claim.clone(), completion)
}
