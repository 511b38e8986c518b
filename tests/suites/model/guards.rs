//! What the protocol rests on. Each guard can be left out of a scenario, and the checker then finds what it is for.

use crate::{
    explore,
    properties::{self as law, Condition},
    scenario::Scenario,
    scenarios as in_,
};

/// The guards, each with a scenario in which all is well with it, and the property that is violated there without it.
macro_rules! guards {
    ($($(#[$doc:meta])+ $guard:ident: $scenario:path => $law:path,)+) => {
        /// A guard, by what it demands.
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

    /// A transactional call holds the key's advisory lock from its beginning.
    BeginTakesLock: in_::transactional => law::ONE_TRANSACTION_AT_A_TIME,

    /// A claim is one statement on a unique constraint, not a look and then an insert.
    ClaimIsOneStep: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A claim that is asked again finds its own reservation by the token.
    ClaimKnowsItsToken: in_::reserved_rerun => law::NOBODY_WAITS_FOR_ITSELF,

    /// A claim that is asked again is told again that it took the key over, so that it asks the reconciler.
    ClaimRemembersTakeover: in_::reserved_reconcile => law::ONE_EFFECT,

    /// A commit fails where somebody else's record is there, and the effect with it.
    CommitRaises: in_::mixed => law::EFFECT_AND_RECORD_ARE_ONE,

    /// To a commit, a reservation that is not to be taken over is somebody else's record too.
    CommitSparesReservations: in_::mixed => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A commit takes over the reservation that there was at the beginning, and no other.
    CommitTakesOverWhatItSaw: in_::mixed_reconcile => law::ONE_EFFECT,

    /// Only the holder of the token completes a reservation.
    CompleteChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A completed record is not completed again. (Tokens see to that too, but FUN-15 has none.)
    CompleteSparesCompleted: in_::mixed_with_go_interceptor => law::RECORDS_ARE_FINAL,

    /// In transactional mode the handler writes through the transaction that it is given.
    EffectInTransaction: in_::transactional => law::EFFECT_AND_RECORD_ARE_ONE,

    /// Only the holder of the token extends a lease.
    ExtendChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A heartbeat that comes late does not revive what its own attempt abandoned.
    ExtendSparesAbandoned: in_::reserved_rerun => law::ABANDONED_IS_ANSWERED,

    /// The database ends transactions whose client is gone or idle.
    IdleTransactionsEnd: in_::transactional => law::EVERY_RUN_COMES_TO_REST,

    /// A handler that fails after its effect was committed does not free the key.
    LateFailureAbandons: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// A reservation has a lease.
    LeasesEnd: in_::reserved_rerun => law::EVERY_RUN_COMES_TO_REST,

    /// The advisory lock is the transaction's, and not the session's.
    LockEndsWithTransaction: in_::transactional => law::NO_KEY_IS_STUCK,

    /// A lost commit is looked for by its token: another's record is no proof.
    LookUpChecksToken: in_::mixed => law::TRANSACTIONAL_ANSWERS,

    /// A lost commit is looked for in a snapshot that was taken once the lock was had.
    LookUpLooksLast: in_::transactional => law::NOTHING_DONE_IS_TRUE,

    /// A lost commit is looked for once its transaction is over.
    LookUpTakesLock: in_::transactional => law::NOTHING_DONE_IS_TRUE,

    /// A lost commit is not assumed to have succeeded.
    LostCommitIsNotCommitted: in_::transactional => law::TRANSACTIONAL_ANSWERS,

    /// A lost commit is not assumed to have failed.
    LostCommitIsNotRolledBack: in_::transactional => law::NOTHING_DONE_IS_TRUE,

    /// The reconciler is asked what is there after the takeover.
    ReconcileLooksLast: in_::reserved_reconcile => law::ONE_EFFECT,

    /// The key is taken over before the reconciler is asked.
    ReconcileTakesOver: in_::reserved_reconcile => law::ONE_EFFECT,

    /// A record does not expire while the call that made it is at work: a retention is longer than any call.
    RecordsOutliveCalls: in_::transactional_expiring => law::NOTHING_DONE_IS_TRUE,

    /// Only the holder of the token releases a reservation.
    ReleaseChecksToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A release deletes no reservation that was taken over, but gives it back.
    ReleaseGivesBack: in_::reserved_reconcile => law::ONE_EFFECT,

    /// A completed record is not released.
    ReleaseSparesCompleted: in_::mixed_with_go_interceptor => law::RECORDS_ARE_FINAL,

    /// What was abandoned is not run again by policy.
    RerunSparesAbandoned: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,

    /// What was abandoned stays marked so when it is taken over for a reconciler.
    TakeoverKeepsMark: in_::reserved_policies => law::ABANDONED_IS_NOT_RERUN,

    /// A takeover has a token of its own.
    TakeoverRenewsToken: in_::reserved_rerun => law::FENCED_CHANGE_NOTHING,

    /// A reservation is taken over once its lease has ended, and not before.
    TakeoverWaitsForLease: in_::reserved_rerun => law::ONE_EFFECT_UNLESS_LEASE_ENDED,
}

#[test]
fn finds_what_each_guard_is_for_when_it_is_left_out() {
    for &(guard, scenario, law) in NEEDED {
        explore::violates(scenario().without(guard), law);
    }
}
