//! Permits for the transactions of handlers: they never take the last connections of a pool, and one user never has all of
//! them, nor do transactions that wait for others inside of their handlers.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::connection::quarter;
use crate::{
    caller::OwnerId,
    policy::Limit,
    store::{StoreError, StoreErrorKind, TransactionCapacity, sql::driver::ConnectionPool},
    telemetry,
};

/// The number of the next pool.
static POOLS: AtomicU32 = AtomicU32::new(1);

/// The owner that a call counts for. All calls without one share `None`.
type User = Option<OwnerId>;

/// The permits of a pool. The waiting user with the fewest permits is next. The last permit is for a user who has none, and a user with
/// half of all permits gets more only while no other user waits.
///
/// A transaction inside of a handler that has one, and holds a permit meanwhile, goes first, whoever the user. Once one was seen, the last
/// permit is for these: as they wait for no other permit, all of them end. The first one may come when others have all permits: it borrows a
/// connection of the claims.
#[derive(Clone)]
pub(in crate::store::sql) struct Permits {
    /// The number of the pool in this process.
    pool: u32,
    line: Arc<Mutex<Line>>,
}

/// A permit to have a connection for a transaction.
#[derive(Debug)]
pub(in crate::store::sql) struct Permit {
    permits: Permits,
    user: User,
    is_inner: bool,
}

impl Permits {
    /// Permits for a pool that has claims, renewals and records, too: all but a quarter of its connections.
    pub(in crate::store::sql) fn beside_claims(driver: &impl ConnectionPool) -> Self {
        Self::new(driver.max_connections().saturating_sub(quarter(driver)), 1)
    }

    /// Permits for a pool that has transactions only.
    pub(in crate::store::sql) fn of_all(driver: &impl ConnectionPool) -> Self {
        Self::new(driver.max_connections(), 0)
    }

    /// At least one permit.
    fn new(permits: usize, spare: usize) -> Self {
        let all = permits.max(1);
        let line = Line { all, of_user: (all - 1).max(1), spare, ..Line::default() };
        Self { pool: POOLS.fetch_add(1, Ordering::Relaxed), line: Arc::new(Mutex::new(line)) }
    }

    /// Lowers the number of permits of all users, and of each, if these are lower. Permits that are taken stay so.
    pub(in crate::store::sql) fn limit(&self, limit: Limit) {
        let mut line = self.line();
        let limit = limit.at_least_one();
        line.all = line.all.min(limit.server);
        line.of_user = line.of_user.min(limit.caller).min((line.all - 1).max(1));
    }

    pub(in crate::store::sql) fn capacity(&self) -> TransactionCapacity {
        TransactionCapacity { pool: self.pool, of_a_caller: self.line().of_user }
    }

    /// Waits for a permit. `inside` is the number of transactions around this one.
    ///
    /// # Errors
    ///
    /// At once: [`Nested`](StoreErrorKind::Nested) inside of two transactions, or of one if there is only one permit.
    /// At the deadline: [`UserLimit`](StoreErrorKind::UserLimit) if the user has as many transactions as one user may
    /// have, [`TransactionLimit`](StoreErrorKind::TransactionLimit) if all users together have as many as there may be.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call leaves the line.
    pub(in crate::store::sql) async fn acquire(
        &self,
        user: User,
        inside: u8,
        deadline: Instant,
    ) -> Result<Permit, StoreError> {
        let is_inner = inside > 0;
        if is_inner && !self.line().nests(inside) {
            telemetry::transaction_refused(StoreErrorKind::Nested.as_str());
            return Err(StoreErrorKind::Nested.into());
        }
        if let Some(permit) = self.take(user, is_inner) {
            return Ok(permit);
        }
        let (call, given) = self.line().enter(user, is_inner);
        let _waiting = PermitWaiter { permits: self, user, call };
        self.serve();
        if let Ok(Ok(permit)) = timeout_at(deadline, given).await {
            return Ok(permit);
        }
        let line = self.line();
        let kind = match is_inner || line.held(user) < line.of_user {
            true => StoreErrorKind::TransactionLimit,
            false => StoreErrorKind::UserLimit,
        };
        drop(line);
        telemetry::transaction_refused(kind.as_str());
        Err(kind.into())
    }

    /// Takes a permit, if there is one for this user and no call waits.
    fn take(&self, user: User, is_inner: bool) -> Option<Permit> {
        self.line().take(user, is_inner).then(|| Permit { permits: self.clone(), user, is_inner })
    }

    /// Gives permits to the calls that wait.
    fn serve(&self) {
        let mut refused = Vec::new();
        {
            let mut line = self.line();
            while let Some((user, is_inner, call)) = line.next() {
                refused.extend(call.send(Permit { permits: self.clone(), user, is_inner }).err());
            }
        }
        // Permits of calls that have gone are given to others once the line is unlocked.
        drop(refused);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Omits the calls that wait.
impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("all", &self.line().all).finish_non_exhaustive()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.line().take_back(self.user, self.is_inner);
        self.permits.serve();
    }
}

/// A call that waits, or has waited.
struct PermitWaiter<'a> {
    permits: &'a Permits,
    user: User,
    call: u64,
}

impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        let has_waited = self.permits.line().leave(self.user, self.call);
        if has_waited {
            // Another user may wait alone now.
            self.permits.serve();
        }
    }
}

/// The users that have permits, or wait for some.
#[derive(Debug, Default)]
struct Line {
    all: usize,
    /// The most of one user.
    of_user: usize,
    /// The permits that are taken: more than all, if these were lowered since.
    taken: usize,
    users: HashMap<User, Calls>,
    /// The users that wait, by the number of their permits and their first call that waits.
    order: BTreeMap<(usize, u64), User>,
    /// The number of the next call.
    calls: u64,
    /// The calls that wait inside of the transactions of others.
    inner: VecDeque<(u64, User, oneshot::Sender<Permit>)>,
    /// The permits that are only for such calls: one, once there was one.
    of_inner: usize,
    /// How many of the permits that are taken are theirs.
    taken_by_inner: usize,
    /// The permits that such a call may borrow if all are taken by others.
    spare: usize,
}

/// The calls of a user.
#[derive(Debug, Default)]
struct Calls {
    held: usize,
    waiting: VecDeque<(u64, oneshot::Sender<Permit>)>,
    /// The user's key in the order, while calls of the user wait.
    place: Option<(usize, u64)>,
}

impl Line {
    fn free(&self) -> usize {
        self.all.saturating_sub(self.taken)
    }

    /// Those that are free, but for the one that is for inner calls.
    fn free_for_outer(&self) -> usize {
        self.free().saturating_sub(self.of_inner)
    }

    /// Those that are free for inner calls.
    fn free_for_inner(&self) -> usize {
        let has_outer_all = self.taken - self.taken_by_inner >= self.all;
        (self.all + if has_outer_all { self.spare } else { 0 }).saturating_sub(self.taken)
    }

    /// Notes a call with this number of transactions around it, at least one. Returns whether it may have a permit.
    fn nests(&mut self, inside: u8) -> bool {
        let may = inside == 1 && self.all > 1;
        self.of_inner |= usize::from(may);
        may
    }

    fn held(&self, user: User) -> usize {
        self.users.get(&user).map_or(0, |calls| calls.held)
    }

    /// Takes a permit as [`next`](Self::next) would give it to this user, who would wait alone. Returns whether there is one.
    fn take(&mut self, user: User, is_inner: bool) -> bool {
        let held = self.held(user);
        let is_there = match is_inner {
            true => self.inner.is_empty() && self.free_for_inner() > 0,
            false => self.order.is_empty() && self.free_for_outer() > usize::from(held > 0) && held < self.of_user,
        };
        if is_there {
            self.users.entry(user).or_default().held += 1;
            self.count(is_inner);
        }
        is_there
    }

    fn enter(&mut self, user: User, is_inner: bool) -> (u64, oneshot::Receiver<Permit>) {
        let (give, given) = oneshot::channel();
        let call = self.calls;
        self.calls += 1;
        if is_inner {
            self.inner.push_back((call, user, give));
            return (call, given);
        }
        self.users.entry(user).or_default().waiting.push_back((call, give));
        self.place(user);
        (call, given)
    }

    /// Returns whether the call still waited.
    fn leave(&mut self, user: User, call: u64) -> bool {
        let inner = self.inner.len();
        self.inner.retain(|(waiting, ..)| *waiting != call);
        if self.inner.len() < inner {
            return true;
        }
        let Some(calls) = self.users.get_mut(&user) else { return false };
        let before = calls.waiting.len();
        calls.waiting.retain(|(waiting, _)| *waiting != call);
        let has_waited = calls.waiting.len() < before;
        self.place(user);
        has_waited
    }

    /// Takes the call that gets a permit next, and counts it; `None` if none gets one.
    fn next(&mut self) -> Option<(User, bool, oneshot::Sender<Permit>)> {
        if self.free_for_inner() > 0
            && let Some((_, user, call)) = self.inner.pop_front()
        {
            self.users.entry(user).or_default().held += 1;
            self.count(true);
            self.place(user);
            return Some((user, true, call));
        }
        let (&(held, _), &user) = self.order.first_key_value()?;
        let waits_alone = self.order.len() == 1;
        let is_next = match held {
            0 => self.free_for_outer() > 0,
            held => self.free_for_outer() > 1 && held < self.of_user && (held < self.all / 2 || waits_alone),
        };
        let calls = self.users.get_mut(&user).filter(|_| is_next)?;
        let (_, call) = calls.waiting.pop_front()?;
        calls.held += 1;
        self.count(false);
        self.place(user);
        Some((user, false, call))
    }

    fn count(&mut self, is_inner: bool) {
        self.taken += 1;
        self.taken_by_inner += usize::from(is_inner);
    }

    fn take_back(&mut self, user: User, is_inner: bool) {
        if let Some(calls) = self.users.get_mut(&user) {
            calls.held -= 1;
            self.taken -= 1;
            self.taken_by_inner -= usize::from(is_inner);
            self.place(user);
        }
    }

    /// Puts a user in its place, and forgets one without calls.
    fn place(&mut self, user: User) {
        let Some(calls) = self.users.get_mut(&user) else { return };
        if let Some(place) = calls.place.take() {
            self.order.remove(&place);
        }
        match calls.waiting.front() {
            Some((call, _)) => {
                let place = (calls.held, *call);
                calls.place = Some(place);
                self.order.insert(place, user);
            }
            None if calls.held == 0 => drop(self.users.remove(&user)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use futures_util::{FutureExt as _, future::BoxFuture};
    use uuid::Uuid;

    use super::*;

    fn user() -> User {
        Some(OwnerId::new(Uuid::new_v4()))
    }

    /// A permit that is there at once.
    async fn acquire(permits: &Permits, user: User) -> Result<Permit, StoreErrorKind> {
        permits.acquire(user, 0, Instant::now()).await.map_err(|error| error.kind())
    }

    async fn take(permits: &Permits, user: User, number: usize) -> Vec<Permit> {
        let mut taken = Vec::new();
        for _ in 0..number {
            taken.push(acquire(permits, user).await.expect("a permit"));
        }
        taken
    }

    /// A call that waits.
    fn wait(permits: &Permits, user: User) -> BoxFuture<'static, Permit> {
        let permits = permits.clone();
        let waiting = async move { permits.acquire(user, 0, Instant::now() + Duration::from_secs(60)).await };
        let mut waiting = async move { waiting.await.expect("a permit") }.boxed();
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    #[tokio::test]
    async fn leave_the_last_one_to_a_user_who_has_none() {
        let (permits, one) = (Permits::new(8, 1), user());
        let taken = take(&permits, one, 7).await;
        assert_eq!(acquire(&permits, one).await.expect_err("the last"), StoreErrorKind::UserLimit);
        let last = acquire(&permits, user()).await.expect("the last");
        assert_eq!(acquire(&permits, user()).await.expect_err("none"), StoreErrorKind::TransactionLimit);
        drop((taken, last));
        drop(take(&permits, one, 7).await);
    }

    #[tokio::test]
    async fn are_no_more_than_the_limit_of_all_and_of_each_user() {
        let (permits, one) = (Permits::new(8, 1), user());
        permits.limit(Limit::new(4, 2));
        let of_one = take(&permits, one, 2).await;
        assert_eq!(acquire(&permits, one).await.expect_err("two"), StoreErrorKind::UserLimit);
        let mut third = wait(&permits, one);
        let of_others = [take(&permits, user(), 1).await, take(&permits, user(), 1).await];
        assert_eq!(acquire(&permits, user()).await.expect_err("four"), StoreErrorKind::TransactionLimit);
        drop(of_others);
        assert!((&mut third).now_or_never().is_none());
        drop(of_one);
        assert!((&mut third).now_or_never().is_some());
        // The pool's own limit stays.
        let few = Permits::new(2, 1);
        few.limit(Limit::NONE);
        drop(take(&few, user(), 1).await);
        assert_eq!(few.line().free(), 2);
    }

    /// Another layer is built with a clone of the store while calls run.
    #[tokio::test]
    async fn may_be_lowered_while_more_are_taken() {
        let permits = Permits::new(8, 1);
        let mut taken = take(&permits, user(), 3).await;
        permits.limit(Limit::new(2, 2));
        assert_eq!(acquire(&permits, user()).await.expect_err("three of two"), StoreErrorKind::TransactionLimit);
        taken.pop();
        assert_eq!(acquire(&permits, user()).await.expect_err("two of two"), StoreErrorKind::TransactionLimit);
        taken.pop();
        drop(acquire(&permits, user()).await.expect("one of two"));
        drop(taken);
        assert_eq!(permits.line().free(), 2);
    }

    #[tokio::test]
    async fn of_one_are_for_whoever_comes() {
        let (permits, one) = (Permits::new(1, 1), user());
        let permit = acquire(&permits, one).await.expect("a permit");
        assert_eq!(acquire(&permits, one).await.expect_err("none"), StoreErrorKind::UserLimit);
        assert_eq!(acquire(&permits, user()).await.expect_err("none"), StoreErrorKind::TransactionLimit);
        drop(permit);
        drop(acquire(&permits, user()).await.expect("a permit"));
    }

    #[tokio::test]
    async fn go_to_the_user_who_has_the_fewest_whoever_came_first() {
        let (permits, [many, few, none]) = (Permits::new(6, 1), [user(), user(), user()]);
        let of_many = take(&permits, many, 3).await;
        let of_few = take(&permits, few, 1).await;
        let [fifth, sixth] = [take(&permits, user(), 1).await, take(&permits, user(), 1).await];
        let [mut many_again, mut few_again, mut first] =
            [wait(&permits, many), wait(&permits, few), wait(&permits, none)];
        drop(sixth);
        let first = (&mut first).now_or_never().expect("who has none");
        // One that is free stays free for a user who has none.
        drop(fifth);
        assert!((&mut few_again).now_or_never().is_none());
        drop(first);
        assert!((&mut many_again).now_or_never().is_none());
        assert!((&mut few_again).now_or_never().is_some(), "before the user who came first");
        drop((of_many, of_few));
    }

    #[tokio::test]
    async fn beyond_half_are_for_a_user_who_waits_alone() {
        let (permits, [one, other]) = (Permits::new(4, 1), [user(), user()]);
        let of_one = take(&permits, one, 2).await;
        let of_other = take(&permits, other, 1).await;
        // One is free, for a user who has none.
        let (mut third, second) = (wait(&permits, one), wait(&permits, other));
        drop(of_other);
        // The other has none now, and gets one.
        let second = second.now_or_never().expect("a permit");
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        let third = third.now_or_never().expect("it waits alone");
        drop((of_one, third));
    }

    /// Else each outer transaction would wait for one that cannot begin.
    #[tokio::test]
    async fn leave_one_to_transactions_inside_of_others_once_there_was_one() {
        let (permits, [one, other]) = (Permits::new(4, 1), [user(), user()]);
        let within = |inside| permits.acquire(one, inside, Instant::now());
        let outer = take(&permits, one, 3).await;
        let inner = within(1).await.expect("the last, though one user has all others");
        let mut next = pin!(permits.acquire(one, 1, Instant::now() + Duration::from_secs(60)));
        assert!((&mut next).now_or_never().is_none());
        let mut first = wait(&permits, other);
        drop(inner);
        drop((&mut next).now_or_never().expect("it goes first").expect("a permit"));
        assert!((&mut first).now_or_never().is_none(), "the last one is for inner ones");
        drop(outer);
        drop((first.now_or_never().expect("one more"), take(&permits, one, 1).await));

        // They have all when the first one comes.
        let full = Permits::new(2, 1);
        let outer = [take(&full, one, 1).await, take(&full, other, 1).await];
        let inner = full.acquire(one, 1, Instant::now()).await.expect("a connection of the claims");
        assert!(full.acquire(other, 1, Instant::now()).await.is_err());
        drop(inner);
        drop(full.acquire(other, 1, Instant::now()).await.expect("likewise"));
        drop(outer);

        assert_eq!(within(2).await.expect_err("a third one").kind(), StoreErrorKind::Nested);
        let only = Permits::new(1, 1).acquire(one, 1, Instant::now()).await;
        assert_eq!(only.expect_err("there is one").kind(), StoreErrorKind::Nested);
        assert!(permits.line().users.is_empty() && permits.line().inner.is_empty() && permits.line().free() == 4);
    }

    #[tokio::test]
    async fn forget_users_without_calls() {
        let permits = Permits::new(2, 1);
        for _ in 0..100 {
            let (one, other) = (user(), None);
            let permit = acquire(&permits, one).await.expect("a permit");
            assert_eq!(acquire(&permits, one).await.expect_err("none left"), StoreErrorKind::UserLimit);
            let others = acquire(&permits, other).await.expect("a permit");
            assert_eq!(acquire(&permits, user()).await.expect_err("none left"), StoreErrorKind::TransactionLimit);
            drop((permit, others));
        }
        assert!(permits.line().users.is_empty() && permits.line().order.is_empty());
        assert_eq!(permits.line().free(), 2);
    }

    #[tokio::test]
    async fn of_a_call_that_gives_up_waiting_go_to_others() {
        let permits = Permits::new(1, 1);
        let permit = acquire(&permits, None).await.expect("a permit");
        {
            let mut waiting = pin!(permits.acquire(user(), 0, Instant::now() + Duration::from_secs(60)));
            assert!((&mut waiting).now_or_never().is_none());
            // It is given the permit, and goes before it has taken it.
            drop(permit);
        }
        drop(acquire(&permits, user()).await.expect("a permit"));
        assert!(permits.line().users.is_empty() && permits.line().free() == 1);
    }
}
