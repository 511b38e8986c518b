//! The tests that every [`Store`] must pass.
//!
//! [`conformance_tests!`] defines a test for each case:
//!
//! ```
//! use tonic_idempotency::{
//!     status::{OutboxStatus, Resource},
//!     store::{MemoryStore, conformance::{Harness, conformance_tests}},
//! };
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     type Store = MemoryStore;
//!     type Fixture = ();
//!
//!     async fn store(&self) -> (MemoryStore, ()) {
//!         (MemoryStore::new(), ())
//!     }
//!
//!     async fn resource(&self, store: &MemoryStore, _: &(), status: Option<OutboxStatus>) -> Resource {
//!         let resource = Resource { resource_type: "project".to_owned(), id: uuid::Uuid::new_v4().into() };
//!         store.set_status(resource.id.clone(), status);
//!         resource
//!     }
//! }
//!
//! # #[cfg(test)]
//! conformance_tests!(Memory);
//! ```

mod claims;
mod completion;
mod leases;
mod look_ups;
mod matrix;
mod recovery;
mod release;
mod replay;
mod support;
mod sweep;
mod transactions;

pub use self::{
    claims::*, completion::*, leases::*, look_ups::*, matrix::*, recovery::*, release::*, replay::*, sweep::*,
    transactions::*,
};
use super::Store;
use crate::status::{OutboxStatus, Resource};

/// Makes the stores for the tests.
pub trait Harness: Send + Sync {
    /// The store under test. Its clones share their records.
    type Store: Store + Clone;
    /// A value that has to live as long as the store, such as a database.
    type Fixture: Send + Sync;

    /// Makes a store without records. It shares nothing with the stores of other tests.
    fn store(&self) -> impl Future<Output = (Self::Store, Self::Fixture)> + Send;

    /// Makes a resource to which a completion can refer, with this status of the work behind it; `None`: without a
    /// status, as are all resources for a store that [has no statuses](Store::has_statuses).
    fn resource(
        &self,
        store: &Self::Store,
        fixture: &Self::Fixture,
        status: Option<OutboxStatus>,
    ) -> impl Future<Output = Resource> + Send;
}

// An exported macro is always at the crate's root: hidden there, and re-exported below.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($harness:expr) => {
        $crate::__conformance_tests! { $harness, unless false }
    };
    ($harness:expr, unless $skipped:expr) => {
        $crate::__conformance_tests! { @cases @tests $harness, $skipped; }
    };
    (by $run:path) => {
        $crate::__conformance_tests! { @cases @run $run; }
    };
    (@cases $($then:tt)*) => {
        $crate::__conformance_tests! {
            $($then)*
            full_matrix
            acquires_a_key_that_is_absent
            acquires_a_key_again_with_the_token_that_holds_it
            renews_the_lease_of_a_claim_that_is_repeated
            acquires_a_key_for_one_of_many_at_once
            acquires_a_key_whose_record_expired
            takes_over_a_key_whose_lease_ended
            takes_over_a_key_again_with_the_token_that_holds_it
            does_not_acquire_a_key_that_its_token_gave_back
            takes_over_a_request_by_either_of_its_hashes
            does_not_take_over_a_key_whose_lease_ended_with_refuse
            does_not_acquire_a_key_in_flight
            does_not_acquire_a_key_of_another_procedure
            does_not_acquire_a_key_of_another_request
            knows_a_request_by_either_of_its_hashes
            does_not_know_a_request_by_none_of_its_hashes
            tells_a_mismatch_before_anything_else
            keeps_the_keys_of_two_owners_apart
            completes_a_reservation_held_by_the_caller
            completes_once
            completes_with_an_empty_response
            completes_with_a_resource_and_its_status
            completes_with_a_sealed_response
            completes_with_metadata
            completes_without_keeping_a_response
            completes_with_an_error
            tells_how_long_a_completed_record_lives
            does_not_complete_after_the_lease_was_taken_over
            does_not_complete_what_was_not_claimed
            does_not_complete_what_was_released
            releases_a_reservation_held_by_the_caller
            releases_a_reservation_that_was_taken_over_without_forgetting_it
            does_not_release_a_completed_record
            does_not_release_after_the_lease_was_taken_over
            extends_a_lease_held_by_the_caller
            extends_a_lease_that_has_ended_and_was_not_taken_over
            does_not_extend_after_the_lease_was_taken_over
            does_not_extend_what_has_ended
            abandons_a_reservation_held_by_the_caller
            does_not_abandon_after_the_lease_was_taken_over
            does_not_abandon_a_completed_record
            finds_abandoned_reservations_oldest_first
            does_not_find_what_is_not_abandoned
            sweeps_what_expired_in_batches
            does_not_sweep_what_has_not_expired
            knows_the_status_of_a_resource
            finds_nothing_of_a_key_that_is_absent
            finds_a_call_that_holds_its_key
            finds_the_outcome_of_a_call
            finds_a_call_without_an_outcome_and_one_that_expired
            looks_up_without_a_change
            does_not_find_the_call_of_another_owner
            finds_a_call_in_a_transaction
            begins_a_transaction_that_holds_its_key
            records_a_transaction_that_is_committed
            records_a_transaction_that_ends_with_an_error
            does_not_record_a_transaction_without_an_outcome
            does_not_record_a_transaction_that_is_rolled_back
            does_not_record_a_transaction_that_is_dropped
            begins_a_transaction_without_a_key
            does_not_begin_a_transaction_of_a_reserved_key
            takes_over_in_a_transaction_a_key_whose_lease_ended
            acquires_in_a_transaction_a_key_whose_record_expired
            does_not_commit_a_transaction_after_another_call_was_recorded
            does_not_commit_a_transaction_after_the_lease_was_renewed
        }
    };
    (@tests $harness:expr, $skipped:expr; $($case:ident)*) => {
        $(
            #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if $skipped {
                    return;
                }
                $crate::store::conformance::$case(&$harness).await;
            }
        )*
    };
    (@run $run:path; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $run(async |harness| $crate::store::conformance::$case(&harness).await);
            }
        )*
    };
}

/// Defines a `#[tokio::test]` for each case, with the case's name. The argument is an expression of a [`Harness`]. With
/// `unless` and a condition, each test asks first, and does nothing if that is true: if there is no server to test with, which
/// the condition reports. With `by` and a function instead, each test gives the function an asynchronous one, which takes the harness: for a
/// runtime of its own.
///
/// The calling crate needs tokio with the features `macros`, `rt-multi-thread` and `time`.
#[doc(inline)]
pub use __conformance_tests as conformance_tests;
