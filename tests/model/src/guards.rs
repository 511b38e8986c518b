//! The guards of the protocol. Each can be left out of a scenario, and the checker then finds the property that it
//! protects.

use crate::{
    explore,
    properties::{self as law, Condition},
    scenario::Scenario,
    scenarios as in_,
};

/// Lists the guards, each with a scenario in which all properties hold, and the property that is violated there without
/// the guard.
macro_rules! guards {
    ($($(#[$doc:meta])+ $guard:ident: $scenario:path => $law:path,)+) => {
        /// A guard, named after its demand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Guard {
            $($(#[$doc])+ $guard,)+
        }

        const NEEDED: &[(Guard, fn() -> Scenario, Condition)] = &[$((Guard::$guard, $scenario, $law),)+];
    };
}

guards! {
    /// Only the holder of the token marks a reservation as abandoned.
    AbandonChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A batch says to whom each of its answers belongs, by the token.
    BatchAnswersByToken: in_::together => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A batch takes no reservation over: a takeover may have to be reconciled first.
    BatchTakesNothingOver: in_::together_reconcile => law::ONE_EFFECT,

    /// A transactional call looks for a record after it has the key's lock, with a snapshot that has what was committed before.
    BeginLooksLast: in_::transactional => law::NO_RUN_BESIDE_A_RECORD,

    /// A transactional call holds the key's advisory lock from its beginning.
    BeginTakesLock: in_::transactional => law::ONE_TRANSACTION_AT_A_TIME,

    /// A call does not end before the time of its claims: what may still come is let go of, too.
    CallsOutliveTheirClaims: in_::reserved_rerun => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A claim is one statement on a unique constraint, not a read followed by an insert.
    ClaimIsOneStep: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A repeated claim finds its own reservation by the token.
    ClaimKnowsItsToken: in_::reserved_rerun => law::NOBODY_WAITS_FOR_ITSELF,

    /// A claim refuses a connection on which a transaction is open: its rollback would undo the reservation.
    ClaimRefusesOpenTransaction: in_::fooled => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A repeated claim is told again that it took the key over, so that it asks the reconciler.
    ClaimRemembersTakeover: in_::reserved_reconcile => law::ONE_EFFECT,

    /// A commit fails if the record is another call's, and its effect is rolled back with it.
    CommitRaises: in_::mixed => law::EFFECT_AND_RECORD_ARE_ONE,

    /// To a commit, a reservation that may not be taken over is another call's record too.
    CommitSparesReservations: in_::mixed => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A commit takes over the reservation that existed when its transaction began, and no other.
    CommitTakesOverWhatItSaw: in_::mixed_reconcile => law::ONE_EFFECT,

    /// Only the holder of the token completes a reservation.
    CompleteChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A completed record is not completed again. (Tokens ensure this too, but the Go interceptor has none.)
    CompleteSparesCompleted: in_::mixed_with_go_interceptor => law::RECORDS_ARE_FINAL,

    /// A transaction that lost a conflict is rolled back, and the caller told, if the handler succeeds.
    ConflictDecidesFirst: in_::transactional_fooled => law::CONFLICTS_ARE_TOLD,

    /// A final error of a handler whose transaction lost a conflict is not recorded.
    ConflictIsNotFinal: in_::transactional_fooled => law::CONFLICTS_ARE_NOT_RECORDED,

    /// In transactional mode the handler writes through the transaction that it gets.
    EffectInTransaction: in_::transactional => law::EFFECT_AND_RECORD_ARE_ONE,

    /// Only the holder of the token extends a lease.
    ExtendChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A late heartbeat does not revive a reservation that its own attempt abandoned.
    ExtendSparesAbandoned: in_::reserved_rerun => law::ABANDONED_IS_ANSWERED,

    /// A reservation of the Go interceptor, which has no lease, is in progress until it expires.
    ForeignReservationsWait: in_::beside_go_interceptor => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// The calls of a batch that fails go alone: another call's row may be the reason.
    FailedBatchGoesAlone: in_::together => law::NOBODY_IS_REFUSED_FOR_ANOTHER,

    /// A claim that gets no connection from the pool is refused.
    FullPoolIsNotUnreachable: in_::pools => law::UNPROTECTED_IF_UNREACHABLE,

    /// A claim that is in its COMMIT when its time is over may still reserve the key: its call waits for the end of that.
    HangingClaimsAreWaitedFor: in_::reserved_rerun => law::NO_RESERVATION_IS_FORGOTTEN,

    /// The lease is renewed while the handler blocks its own task.
    HeartbeatHasItsTask: in_::reserved_reconcile => law::ONE_EFFECT,

    /// The database ends transactions whose client is gone or idle.
    IdleTransactionsEnd: in_::transactional => law::EVERY_RUN_COMES_TO_REST,

    /// A claim has a time, after which it changes nothing.
    LateClaimsDoNothing: in_::reserved_rerun => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A handler that fails after its effect was committed does not free the key.
    LateFailureAbandons: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A call that has been answered otherwise, or has given up, is not in the next batch.
    LeaversAreNotSent: in_::together => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A reservation has a lease.
    LeasesEnd: in_::reserved_rerun => law::EVERY_RUN_COMES_TO_REST,

    /// The advisory lock belongs to the transaction, not to the session.
    LockEndsWithTransaction: in_::transactional => law::NO_KEY_IS_STUCK,

    /// The lookup of a lost commit checks the token: another call's record proves nothing.
    LookUpChecksToken: in_::mixed => law::TRANSACTIONAL_ANSWERS,

    /// The lookup of a lost commit takes its snapshot after it has the lock.
    LookUpLooksLast: in_::transactional => law::NOTHING_DONE_IS_TRUE,

    /// The lookup of a lost commit waits for the lock, and so for the end of the transaction.
    LookUpTakesLock: in_::transactional => law::NOTHING_DONE_IS_TRUE,

    /// A look tells no call that it has to wait for its own reservation, which a lost batch has made.
    LookKnowsItsToken: in_::together => law::NOBODY_WAITS_FOR_ITSELF,

    /// A look tells no call to wait for a reservation whose lease has ended.
    LookWaitsForLeases: in_::together_reconcile => law::NOBODY_WAITS_FOR_NOTHING,

    /// Each claim of a batch that was sent may stand, if the batch gets no answer.
    LostBatchMayStand: in_::together => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A lost commit is not assumed to have succeeded.
    LostCommitIsNotCommitted: in_::transactional => law::TRANSACTIONAL_ANSWERS,

    /// A lost commit is not assumed to have failed.
    LostCommitIsNotRolledBack: in_::transactional => law::NOTHING_DONE_IS_TRUE,

    /// An error of a pooler that lost its server is not a refusal of a claim: the claim may stand.
    MisleadingClaimMayStand: in_::fooled => law::NO_RESERVATION_IS_FORGOTTEN,

    /// An error of a pooler that lost its server is not a refusal of a COMMIT: it is looked up.
    MisleadingCommitIsLookedUp: in_::transactional_fooled => law::NOTHING_DONE_IS_TRUE,

    /// The reconciler looks for the effect after the takeover.
    ReconcileLooksLast: in_::reserved_reconcile => law::ONE_EFFECT,

    /// The key is taken over before the reconciler is asked.
    ReconcileTakesOver: in_::reserved_reconcile => law::ONE_EFFECT,

    /// Recording an outcome goes on after the end of the lease: the token fences.
    RecordingOutlivesLease: in_::reserved_rerun => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A record does not expire while the call that made it runs: a retention is longer than any call.
    RecordsOutliveCalls: in_::transactional_expiring => law::NOTHING_DONE_IS_TRUE,

    /// Recording an outcome goes on after the store refused it: the next try may succeed.
    RecordingOutlivesRefusals: in_::fooled => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A claim that the database refuses (a missing grant, a corrupt row, a conflict) is refused.
    RefusalIsNotUnreachable: in_::fooled => law::UNPROTECTED_IF_UNREACHABLE,

    /// A call that is refused releases a claim that may stand.
    RefusedCallReleases: in_::proceeding_and_rejecting => law::NO_RESERVATION_IS_FORGOTTEN,

    /// Without the policy to proceed, a call is refused if the store cannot be asked.
    RejectDoesNotProceed: in_::proceeding_and_rejecting => law::ONE_EFFECT,

    /// Only the holder of the token releases a reservation.
    ReleaseChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A release does not delete a reservation that was taken over, but gives it back.
    ReleaseGivesBack: in_::reserved_reconcile => law::ONE_EFFECT,

    /// A completed record is not released.
    ReleaseSparesCompleted: in_::mixed_with_go_interceptor => law::RECORDS_ARE_FINAL,

    /// An abandoned call is not run again by policy.
    RerunSparesAbandoned: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A claim that was sent may stand, whatever becomes of the next attempt.
    SentClaimsAreRemembered: in_::proceeding => law::NO_RESERVATION_IS_FORGOTTEN,

    /// A claim whose status is slow is asked again without it.
    SlowStatusIsLeftOut: in_::fooled => law::SLOW_STATUS_WITHHOLDS_NOTHING,

    /// A call whose claims got no answer is refused if the store answers a probe.
    SlowStoreIsNotUnreachable: in_::fooled => law::UNPROTECTED_IF_UNREACHABLE,

    /// An abandoned record stays marked when it is taken over for a reconciler.
    TakeoverKeepsMark: in_::reserved_policies => law::ABANDONED_IS_NOT_RERUN,

    /// A takeover has a token of its own.
    TakeoverRenewsToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A reservation is not taken over before its lease has ended.
    TakeoverWaitsForLease: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A transactional handler does not run without its transaction.
    TransactionsDoNotProceed: in_::proceeding_and_rejecting => law::EFFECT_AND_RECORD_ARE_ONE,

    /// Transactions leave connections to claims.
    TransactionsSpareConnections: in_::pools => law::NOBODY_IS_STARVED,

    /// An unprotected run whose claim may stand is recorded by the token.
    UnprotectedRunsAreRecorded: in_::proceeding => law::NO_RESERVATION_IS_FORGOTTEN,

    /// An unprotected run whose claim may stand renews the lease by the token, whether or not the claim has arrived.
    UnprotectedRunsRenew: in_::proceeding_reconcile => law::ONE_EFFECT,

    /// One user does not hold all transactions.
    UsersShareTransactions: in_::pools => law::NOBODY_IS_STARVED,
}

#[test]
fn finds_the_violation_when_a_guard_is_left_out() {
    for &(guard, scenario, law) in NEEDED {
        explore::violates(scenario().without(guard), law);
    }
}
