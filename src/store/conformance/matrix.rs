//! The table of [`ClaimOutcome`], row by row.

use std::time::Duration;

use protobuf_canonical::RequestHash;

use super::{
    Harness,
    support::{HOUR, NONE, abandoned, acquire, again, claim, claimed, complete, completion, failure},
};
use crate::{
    policy::LeasePolicy,
    rejection::Mismatch,
    store::{AbandonOutcome, Claim, ClaimOutcome, Completion},
};

/// Every row of the table of [`ClaimOutcome`], for a second claim with this policy.
pub async fn full_matrix(harness: &impl Harness) {
    #[derive(Clone, Copy, Debug)]
    enum Record {
        Absent,
        Abandoned,
        Completed { lease: Duration },
        Expired,
        Failed,
        Reserved { lease: Duration },
    }
    let records = [
        Record::Absent,
        Record::Abandoned,
        Record::Completed { lease: HOUR },
        // Completed late, or a while ago: whether the lease still runs is all the same.
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
                let case = format!("{record:?}, same request: {same_request}, {policy:?}");
                let first = claim();
                match record {
                    Record::Absent => {}
                    Record::Abandoned => {
                        acquire(&store, &first).await;
                        assert_eq!(abandoned(&store, &first).await, AbandonOutcome::Abandoned);
                    }
                    Record::Completed { lease } => {
                        acquire(&store, &Claim { lease, ..first.clone() }).await;
                        complete(&store, &first, &completion(b"first")).await;
                    }
                    Record::Expired => {
                        acquire(&store, &first).await;
                        complete(&store, &first, &Completion { retention: NONE, ..completion(b"old") }).await;
                    }
                    Record::Failed => {
                        acquire(&store, &first).await;
                        complete(&store, &first, &failure(b"first")).await;
                    }
                    Record::Reserved { lease } => acquire(&store, &Claim { lease, ..first.clone() }).await,
                }
                let second = Claim { on_lease_ended: policy, ..again(&first) };
                let second = match same_request {
                    true => second,
                    false => Claim { request_hash: RequestHash::from([8; 32]), ..second },
                };

                let outcome = claimed(&store, &second).await;

                let as_documented = match (record, same_request, policy) {
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
                };
                assert!(as_documented, "{case}: {outcome:?}");
            }
        }
    }
}
