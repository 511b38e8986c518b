//! Claims that fail, in every way: some run their handler, and the others are refused.

use crate::prelude::*;

const KINDS: [StoreErrorKind; 8] = [
    StoreErrorKind::Conflict,
    StoreErrorKind::Corrupt,
    StoreErrorKind::Interrupted,
    StoreErrorKind::Overloaded,
    StoreErrorKind::Refused,
    StoreErrorKind::Unreachable,
    StoreErrorKind::UserFull,
    StoreErrorKind::UserLimit,
];

/// A claim that fails.
#[derive(Clone, Copy, Debug)]
struct Failure {
    kind: StoreErrorKind,
    policy: StorePolicy,
    mode: Mode,
    /// The claim took effect, and its answer was lost.
    lost: bool,
}

impl Failure {
    fn all() -> impl Iterator<Item = Self> {
        KINDS.into_iter().flat_map(|kind| {
            [StorePolicy::Proceed, StorePolicy::Reject].into_iter().flat_map(move |policy| {
                [Mode::Reserved, Mode::Transactional]
                    .into_iter()
                    .flat_map(move |mode| [false, true].into_iter().map(move |lost| Self { kind, policy, mode, lost }))
            })
        })
    }

    /// Only a store that cannot be asked, only in reserved mode, and only if the policy says so.
    fn proceeds(self) -> bool {
        let unavailable = matches!(self.kind, StoreErrorKind::Interrupted | StoreErrorKind::Unreachable);
        unavailable && self.policy == StorePolicy::Proceed && self.mode == Mode::Reserved
    }

    /// The code, the reason, and whether the answer has a retry delay.
    fn refusal(self) -> (Code, Reason, bool) {
        match self.kind {
            StoreErrorKind::Conflict => (Code::Aborted, Reason::Conflict, true),
            StoreErrorKind::Interrupted | StoreErrorKind::Unreachable => {
                (Code::Unavailable, Reason::StoreUnavailable, true)
            }
            StoreErrorKind::Overloaded => (Code::Unavailable, Reason::Overloaded, true),
            StoreErrorKind::UserFull => (Code::ResourceExhausted, Reason::TooManyRecords, false),
            StoreErrorKind::UserLimit => (Code::ResourceExhausted, Reason::Overloaded, true),
            _ => (Code::Internal, Reason::StoreFailed, false),
        }
    }

    async fn check(self) {
        let policies = Policies { mode: self.mode, on_store_unavailable: self.policy, ..Policies::default() };
        let anywhere = |procedure: ProcedureBuilder| procedure.effect(EffectPolicy::Anywhere);
        let build = |builder: IdempotencyLayerBuilder| builder.policies(policies).adjust_procedures(anywhere);
        let (shop, store) = Shop::watched(build).await;
        let claim = if self.mode == Mode::Reserved { Operation::Claim } else { Operation::Begin };
        match self.lost {
            true => store.lose_answer_and_fail(claim, self.kind),
            false => store.fail(claim, self.kind),
        }
        let first = shop.create("a").await;
        store.mend(claim);
        assert_eq!(shop.handler.started(), usize::from(self.proceeds()), "{self:?}: {first:?}");
        match &first {
            Ok(seen) => assert_eq!((self.proceeds(), &seen.status, &seen.replayed), (true, &None, &None), "{self:?}"),
            Err(status) => {
                let (code, reason, retry) = self.refusal();
                assert_rejected(status, code, reason);
                assert_eq!(status.get_details_retry_info().is_some(), retry, "{self:?}");
            }
        }
        // Whatever stands of the claim is released or completed in the background.
        tokio::time::sleep(Duration::from_secs(1)).await;
        if self.mode == Mode::Reserved {
            self.check_retry(&shop, first.ok()).await;
        }
        let settled = [Operation::Complete, Operation::Release].map(|operation| store.asked(operation));
        if !self.lost && self.kind != StoreErrorKind::Interrupted {
            // Only the retry.
            assert_eq!(settled, [usize::from(self.mode == Mode::Reserved), 0], "{self:?}");
        }
    }

    async fn check_retry(self, shop: &Shop, unprotected: Option<Seen>) {
        let before = shop.handler.started();
        let retry = shop.create("a").await.unwrap_or_else(|status| panic!("{self:?}: {status:?}"));
        match unprotected.filter(|_| self.lost) {
            Some(first) => {
                retry.assert("processing", true);
                assert_eq!((retry.message, shop.handler.started()), (first.message, before), "{self:?}");
            }
            None => {
                retry.assert("processing", false);
                assert_eq!(shop.handler.started(), before + 1, "{self:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn full_matrix() {
    for failure in Failure::all() {
        failure.check().await;
    }
}
