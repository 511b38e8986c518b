//! Every combination of a record and a second claim, with its outcome.

use std::time::Duration;

use protobuf_canonical::RequestHash;

use super::{
    Harness,
    support::{HOUR, NONE, abandoned, acquire, again, claim, claimed, complete, completion, failure},
};
use crate::{
    policy::LeasePolicy,
    rejection::Mismatch,
    store::{AbandonOutcome, Claim, ClaimOutcome, Completion, Store},
};

/// Every row of the table of [`ClaimOutcome`].
pub async fn full_matrix(harness: &impl Harness) {
    let records = [
        Record::Absent,
        Record::Abandoned,
        Record::Completed { lease: HOUR },
        // Whether the lease still runs makes no difference once the call is completed.
        Record::Completed { lease: NONE },
        Record::Expired,
        Record::Failed,
        Record::Reserved { lease: HOUR },
        Record::Reserved { lease: NONE },
    ];
    let (store, _fixture) = harness.store().await;
    for record in records {
        for same_request in [true, false] {
            for policy in [LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun] {
                let first = claim();
                record.make(&store, &first).await;
                let second = Claim { on_lease_ended: policy, ..again(&first) };
                let second = match same_request {
                    true => second,
                    false => Claim { request: RequestHash::from([8; 32]).into(), ..second },
                };

                let outcome = claimed(&store, &second).await;

                let as_documented = is_documented(record, same_request, policy, &outcome);
                assert!(as_documented, "{record:?}, same request: {same_request}, {policy:?}: {outcome:?}");
            }
        }
    }
}

/// The record that a second claim finds.
#[derive(Clone, Copy, Debug)]
enum Record {
    Absent,
    Abandoned,
    Completed { lease: Duration },
    Expired,
    Failed,
    Reserved { lease: Duration },
}

impl Record {
    /// Makes the record of this claim.
    async fn make(self, store: &impl Store, first: &Claim) {
        match self {
            Self::Absent => {}
            Self::Abandoned => {
                acquire(store, first).await;
                assert_eq!(abandoned(store, first).await, AbandonOutcome::Abandoned);
            }
            Self::Completed { lease } => {
                acquire(store, &Claim { lease, ..first.clone() }).await;
                complete(store, first, &completion(b"first")).await;
            }
            Self::Expired => {
                acquire(store, first).await;
                complete(store, first, &Completion { retention: NONE, ..completion(b"old") }).await;
            }
            Self::Failed => {
                acquire(store, first).await;
                complete(store, first, &failure(b"first")).await;
            }
            Self::Reserved { lease } => acquire(store, &Claim { lease, ..first.clone() }).await,
        }
    }
}

/// Returns whether the outcome of the second claim is the one in the table.
fn is_documented(record: Record, same_request: bool, policy: LeasePolicy, outcome: &ClaimOutcome) -> bool {
    match (record, same_request, policy) {
        (Record::Absent | Record::Expired, _, _) => matches!(outcome, ClaimOutcome::Acquired),
        (_, false, _) => matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Request)),
        (Record::Completed { .. } | Record::Failed, true, _) => matches!(outcome, ClaimOutcome::Replay(_)),
        (Record::Reserved { lease: HOUR }, true, _) => matches!(outcome, ClaimOutcome::InFlight { .. }),
        (Record::Abandoned | Record::Reserved { .. }, true, LeasePolicy::Reconcile)
        | (Record::Reserved { .. }, true, LeasePolicy::Rerun) => {
            matches!(outcome, ClaimOutcome::TakenOver)
        }
        (Record::Abandoned, true, LeasePolicy::Refuse | LeasePolicy::Rerun)
        | (Record::Reserved { .. }, true, LeasePolicy::Refuse) => {
            matches!(outcome, ClaimOutcome::OutcomeUnknown)
        }
    }
}
