//! A store that counts its calls and fails on request.

use std::sync::MutexGuard;

use tonic_idempotency::{
    rejection::Mismatch,
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, BeginOutcome, CallSession, Claim, CompleteOutcome, ExtendOutcome,
        KeyRecord, LookUp, ReleaseOutcome, ServerClock, StoreError, TransactionOptions,
    },
};

use crate::prelude::*;

/// A store in memory that counts its calls and fails on request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    store: MemoryStore,
    operations: Arc<Mutex<HashMap<Operation, State>>>,
    effects: Arc<Mutex<Vec<EffectPolicy>>>,
    tokens: Arc<Mutex<HashSet<Uuid>>>,
    late: Arc<Mutex<Option<Claim>>>,
    responses: Arc<Mutex<Vec<StoredResponse>>>,
    mistakes: Arc<AtomicUsize>,
    /// The clock of its server, as far as it is known.
    pub(crate) clock: Arc<ServerClock>,
}

/// An operation of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Abandon,
    /// Always fails, because there are no transactions in memory.
    Begin,
    Claim,
    Complete,
    Extend,
    LookUp,
    Release,
}

#[derive(Debug, Default)]
struct State {
    asked: usize,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Fails { kind: StoreErrorKind, after: Duration },
    FailsOnce { kind: StoreErrorKind },
    Hangs,
    IsLate,
    LosesAnswer { kind: StoreErrorKind },
}

impl Watched {
    /// The number of calls of this operation.
    pub(crate) fn asked(&self, operation: Operation) -> usize {
        self.lock().entry(operation).or_default().asked
    }

    /// The effect policies of all claims, in order.
    pub(crate) fn effects(&self) -> Vec<EffectPolicy> {
        self.effects.lock().expect("no panic").clone()
    }

    /// The number of fencing tokens in all claims.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens.lock().expect("no panic").len()
    }

    /// The responses of all completions, in order.
    pub(crate) fn responses(&self) -> Vec<StoredResponse> {
        self.responses.lock().expect("no panic").clone()
    }

    /// Answers the next claims as if the record were of another request, whatever there is.
    pub(crate) fn mistake_claims(&self, number: usize) {
        self.mistakes.store(number, Ordering::SeqCst);
    }

    /// Sets the status that a replay reports for a resource.
    pub(crate) fn set_status(&self, resource: Uuid, status: OutboxStatus) {
        self.store.set_status(resource, status);
    }

    /// Makes this operation fail from now on.
    pub(crate) fn fail(&self, operation: Operation, kind: StoreErrorKind) {
        self.fail_after(operation, kind, Duration::ZERO);
    }

    /// Makes this operation fail from now on, after a delay.
    pub(crate) fn fail_after(&self, operation: Operation, kind: StoreErrorKind, after: Duration) {
        self.set(operation, Some(Trouble::Fails { kind, after }));
    }

    /// Makes this operation fail once.
    pub(crate) fn fail_next(&self, operation: Operation, kind: StoreErrorKind) {
        self.set(operation, Some(Trouble::FailsOnce { kind }));
    }

    /// Makes claims fail from now on, as if their answers were lost; the last is carried out when
    /// [`carry_out`](Self::carry_out) is called.
    pub(crate) fn hold_claims_up(&self) {
        self.set(Operation::Claim, Some(Trouble::IsLate));
    }

    /// Carries out the claim that was held up.
    pub(crate) async fn carry_out(&self) -> ClaimOutcome {
        let claim = self.late.lock().expect("no panic").take().expect("a claim was held up");
        self.store.claim(&claim).await.expect("the store in memory is there")
    }

    /// Makes this operation hang from now on.
    pub(crate) fn hang(&self, operation: Operation) {
        self.set(operation, Some(Trouble::Hangs));
    }

    /// Makes this operation take effect from now on and then fail, as if its answer were lost.
    pub(crate) fn lose_answer(&self, operation: Operation) {
        self.lose_answer_and_fail(operation, StoreErrorKind::Interrupted);
    }

    /// Makes this operation take effect from now on and then fail, as if its answer were lost and another attempt had
    /// failed in this way.
    pub(crate) fn lose_answer_and_fail(&self, operation: Operation, kind: StoreErrorKind) {
        self.set(operation, Some(Trouble::LosesAnswer { kind }));
    }

    /// Makes this operation work again.
    pub(crate) fn mend(&self, operation: Operation) {
        self.set(operation, None);
    }

    fn set(&self, operation: Operation, trouble: Option<Trouble>) {
        self.lock().entry(operation).or_default().trouble = trouble;
    }

    async fn watch<T>(
        &self,
        operation: Operation,
        done: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let trouble = {
            let mut operations = self.lock();
            let state = operations.entry(operation).or_default();
            state.asked += 1;
            let trouble = state.trouble;
            state.trouble = trouble.filter(|trouble| !matches!(trouble, Trouble::FailsOnce { .. }));
            trouble
        };
        match trouble {
            None => done.await,
            Some(Trouble::Fails { kind, after }) => {
                tokio::time::sleep(after).await;
                Err(kind.into())
            }
            Some(Trouble::FailsOnce { kind }) => Err(kind.into()),
            Some(Trouble::Hangs) => std::future::pending().await,
            Some(Trouble::IsLate) => Err(StoreError::from(StoreErrorKind::Interrupted).after_a_lost_answer()),
            Some(Trouble::LosesAnswer { kind }) => {
                drop(done.await);
                Err(StoreError::from(kind).after_a_lost_answer())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Operation, State>> {
        self.operations.lock().expect("no panic")
    }
}

impl Store for Watched {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        self.tokens.lock().expect("no panic").insert(claim.reservation.token);
        self.effects.lock().expect("no panic").push(claim.effect);
        *self.late.lock().expect("no panic") = Some(claim.clone());
        let is_mistaken =
            self.mistakes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let claimed = async {
            if is_mistaken { Ok(ClaimOutcome::Mismatch(Mismatch::Request)) } else { self.store.claim(claim).await }
        };
        self.watch(Operation::Claim, claimed).await
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        self.watch(Operation::Extend, self.store.extend(reservation, lease)).await
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        self.responses.lock().expect("no panic").push(completion.response.clone());
        self.watch(Operation::Complete, self.store.complete(reservation, completion)).await
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.watch(Operation::Release, self.store.release(reservation)).await
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        self.watch(Operation::Abandon, self.store.abandon(reservation)).await
    }

    async fn abandoned(&self, query: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        self.store.abandoned(query).await
    }

    async fn sweep(&self, batch: u32) -> Result<u64, StoreError> {
        self.store.sweep(batch).await
    }

    async fn status(&self, session: &CallSession, resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        self.store.status(session, resource).await
    }

    async fn look_up(&self, look_up: &LookUp) -> Result<KeyRecord, StoreError> {
        self.watch(Operation::LookUp, self.store.look_up(look_up)).await
    }

    fn server_clock(&self) -> Option<&ServerClock> {
        Some(&self.clock)
    }

    fn has_transactions(&self) -> bool {
        true
    }

    async fn begin(&self, _: &Claim, _: TransactionOptions) -> Result<BeginOutcome, StoreError> {
        self.watch(Operation::Begin, async { Err(StoreErrorKind::Refused.into()) }).await
    }
}
