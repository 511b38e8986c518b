//! The tests, by their names.

use std::io::Write as _;

use crate::Stack;

/// Runs a test, if the driver does not leave it out.
pub async fn run<S: Stack>(name: &str, test: impl AsyncFnOnce()) {
    match S::LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
        // Fails if standard error is closed.
        Some((_, reason)) => drop(std::io::stderr().write_all(format!("LEFT OUT {name}: {reason}\n").as_bytes())),
        None => test().await,
    }
}

/// Asserts that the tests that the driver leaves out exist.
pub fn assert_known<S: Stack>(names: &[&str]) {
    for (left_out, _) in S::LEFT_OUT {
        assert!(names.contains(left_out), "there is no test {left_out}");
    }
}

/// Defines the tests for a [`Stack`]. The calling crate needs tokio with the features `macros`, `rt-multi-thread` and `time`.
///
/// ```ignore
/// struct MyStack;
///
/// impl Stack for MyStack { … }
///
/// mod every_driver {
///     use super::MyStack;
///
///     driver_suite::driver_tests!(MyStack);
/// }
/// ```
///
/// `driver_tests!(MyStack, transactions)` leaves the conformance suite out, for a driver whose tests of stores run it.
#[macro_export]
macro_rules! driver_tests {
    ($stack:ident) => {
        mod conformance_on_a_server {
            use super::*;

            $crate::conformance_tests!($crate::OnAServer::<$stack>::new());
        }

        mod conformance_behind_pgbouncer {
            use super::*;

            $crate::conformance_tests!($crate::BehindPgBouncer::<$stack>::new());
        }

        $crate::driver_tests!($stack, transactions);
    };
    ($stack:ident, transactions) => {
        $crate::driver_tests! {
            @tests $stack;
            atomicity {
                a_call_that_succeeds_leaves_its_rows_and_its_record
                a_call_that_fails_or_panics_leaves_nothing
                a_handler_that_ignores_a_failed_statement_does_not_succeed
                a_handler_that_drops_the_future_of_a_statement_that_fails_does_not_succeed
                a_commit_that_is_refused_leaves_nothing
                a_handler_that_ends_the_transaction_does_not_succeed
                a_handler_that_ends_the_transaction_does_not_succeed_without_a_key
                a_final_error_leaves_its_record_and_nothing_else_even_after_a_failed_statement
            }
            bouncer {
                a_call_is_committed_replayed_or_rolled_back
                many_at_once_keep_their_users_apart
                a_commit_whose_answer_pgbouncer_lost_is_looked_up
                a_client_that_hangs_up_has_its_statement_cancelled
            }
            connections {
                are_returned_clean_whatever_the_outcome_of_the_call
                are_one_for_each_running_call_and_none_for_its_duplicates
                a_call_whose_connection_is_terminated_or_cut_leaves_nothing
                pooled_connections_that_were_terminated_are_replaced
                a_call_is_refused_if_there_is_no_connection
                of_a_pool_that_is_in_use_are_enough_for_claims
                a_call_whose_handler_keeps_its_connection_is_refused_or_the_connection_is_dead
                the_server_ends_a_transaction_that_is_idle_for_too_long
                are_closed_outside_of_a_runtime
                that_come_with_an_open_transaction_are_replaced
            }
            disconnects {
                roll_back_and_keep_the_connection
                end_the_statement_that_does_not_end_in_time
                leave_clean_connections_whatever_they_interrupt
                do_not_cancel_a_handler_that_goes_on
            }
            duplicates {
                a_duplicate_is_refused_at_once_while_the_first_runs
                one_of_many_at_once_runs
            }
            errors {
                of_a_login_are_told_apart
                of_stale_statements_are_not_seen
                of_lost_connections_are_not_seen
                of_silent_connections_are_not_seen
                of_the_set_up_are_found_by_verify
            }
            handle {
                is_dead_once_the_call_has_ended
                can_be_cloned_into_helpers
                is_missing_if_the_procedure_is_in_reserved_mode
            }
            isolation {
                is_the_procedures_whatever_the_default_of_the_role
                a_call_that_loses_a_conflict_is_aborted_and_can_be_retried
                a_conflict_is_reported_if_the_answer_has_it_as_its_source
                a_conflict_is_reported_if_the_handler_notes_it_whatever_it_answers
                a_conflict_that_the_handler_swallows_is_not_committed
                another_error_is_not_taken_for_a_conflict
                a_deadlock_in_a_savepoint_that_is_rolled_back_is_ignored
                a_lost_connection_is_told_from_a_conflict
            }
            lost_answers {
                a_call_succeeds_if_the_server_commits_after_all
                a_call_is_refused_if_the_server_rolls_back
            }
            owned {
                are_committed_by_their_owner
                are_rolled_back_if_dropped_or_told_to
                without_a_user_see_no_users_rows
                do_not_commit_if_a_statement_has_failed_or_lost
            }
            savepoints {
                are_kept_or_rolled_back_alone
                are_rolled_back_if_dropped
                one_that_is_never_dropped_is_committed_with_the_call
                one_that_cannot_be_set_does_not_hide_that_the_transaction_has_failed
            }
            session {
                names_the_user_and_has_the_applications_settings
                lets_row_level_security_see_the_user
                keeps_the_record_for_its_user_whatever_the_handler_sets
            }
        }
    };
    (@tests $stack:ident; $($module:ident { $($case:ident)* })*) => {
        $(
            mod $module {
                use super::*;

                $(
                    #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        let name = concat!(stringify!($module), "::", stringify!($case));
                        $crate::run::<$stack>(name, $crate::$module::$case::<$stack>).await;
                    }
                )*
            }
        )*

        #[test]
        fn tests_that_are_left_out_exist() {
            $crate::assert_known::<$stack>(&[$($(concat!(stringify!($module), "::", stringify!($case)),)*)*]);
        }
    };
}
