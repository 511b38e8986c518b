//! The tests, by their names.

use std::io::Write as _;

use crate::Stack;

/// Runs a test, if the driver does not leave it out.
pub async fn run<S: Stack>(name: &str, test: impl AsyncFnOnce()) {
    match S::LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
        Some((_, reason)) => left_out(name, reason),
        None => test().await,
    }
}

/// Reports that something is left out.
pub(crate) fn left_out(what: &str, reason: &str) {
    // Fails if standard error is closed.
    let _ = std::io::stderr().write_all(format!("LEFT OUT {what}: {reason}\n").as_bytes());
}

/// Asserts that the tests that the driver leaves out exist.
pub fn assert_known<S: Stack>(names: &[&str]) {
    for (left_out, _) in S::LEFT_OUT {
        assert!(names.contains(left_out), "there is no test {left_out}");
    }
}

/// Defines the tests for a [`Stack`]. The calling crate needs tokio with the features `macros`, `rt-multi-thread` and `time`.
///
/// ```text
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

            $crate::conformance_tests!($crate::Stores::<$stack>::on_a_server());
        }

        mod conformance_behind_pgbouncer {
            use super::*;

            $crate::conformance_tests!($crate::Stores::<$stack>::behind_pgbouncer());
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
                a_handler_that_keeps_its_record_from_being_written_is_an_error_and_not_an_outage
                a_handler_that_ends_the_transaction_does_not_succeed
                a_handler_that_ends_the_transaction_does_not_succeed_without_a_key
                a_final_error_leaves_its_record_and_nothing_else_even_after_a_failed_statement
                the_key_of_a_call_that_fails_is_free_when_the_answer_comes
                a_response_that_is_not_stored_leaves_its_rows_and_its_record
                a_call_whose_key_another_server_has_taken_meanwhile_leaves_nothing
            }
            bouncer {
                a_call_is_committed_replayed_or_rolled_back
                many_at_once_keep_their_users_apart
                a_commit_whose_answer_pgbouncer_lost_is_looked_up
                a_client_that_hangs_up_has_its_statement_cancelled
                one_of_many_duplicates_runs
            }
            connections {
                are_returned_clean_whatever_the_outcome_of_the_call
                are_one_for_each_running_call_and_none_for_its_duplicates
                a_call_whose_connection_is_terminated_or_cut_leaves_nothing
                pooled_connections_that_were_terminated_are_replaced
                a_call_is_refused_if_there_is_no_connection
                of_a_pool_that_is_in_use_are_enough_for_claims
                tell_how_long_they_were_used_and_how_long_not
                a_call_whose_handler_keeps_its_connection_is_refused_or_the_connection_is_dead
                the_server_ends_a_transaction_that_is_idle_for_too_long
                the_server_ends_a_transaction_that_lasts_for_too_long
                are_closed_outside_of_a_runtime
                that_come_with_an_open_transaction_are_replaced
                one_is_enough_for_many_calls
            }
            cuts {
                that_are_cut_anywhere_leave_an_effect_with_its_record_or_neither
                that_are_cut_at_the_commit_are_looked_up
                that_are_silent_before_a_call_are_replaced
                that_fall_silent_in_a_call_hold_its_key_no_longer_than_the_server_waits
            }
            disconnects {
                roll_back_and_keep_the_connection
                cancel_the_statement_that_runs_and_keep_the_connection
                end_the_statement_that_does_not_end_in_time
                leave_clean_connections_whatever_they_interrupt
                do_not_cancel_a_handler_that_goes_on
                leave_an_effect_with_its_record_or_neither
            }
            duplicates {
                a_duplicate_is_refused_at_once_while_the_first_runs
                one_of_many_at_once_runs
                all_of_many_at_once_are_replayed_after_the_first
                another_procedure_is_refused_while_the_first_runs_and_afterwards
            }
            errors {
                of_another_server_are_refusals_and_leave_the_connection
                of_a_login_are_told_apart
                of_stale_statements_are_not_seen
                of_lost_and_silent_connections_are_not_seen
                of_a_lost_transaction_are_those_of_the_store_whatever_its_handler_says
                of_texts_are_not_made_by_the_settings_of_the_role
                of_the_set_up_are_found_by_verify
            }
            failover {
                a_call_at_a_standby_is_refused_and_its_connection_is_closed
                a_call_whose_primary_is_lost_before_its_commit_leaves_nothing_and_its_retry_runs
                claims_whose_commits_are_later_than_their_calls_keep_no_key
                commits_that_hang_take_no_more_processes_than_the_pool_may_have
            }
            functions {
                that_look_neither_read_nor_leave_anything_in_it
                that_look_for_a_serializable_transaction_miss_no_record
                that_search_find_what_is_there_now
                that_search_for_too_long_are_cancelled
            }
            handle {
                can_be_cloned_into_helpers
                is_missing_if_the_procedure_is_in_reserved_mode
                is_dead_in_a_task_that_outlives_the_call
                reads_through_a_cursor
            }
            isolation {
                is_the_procedures_whatever_the_default_of_the_role
                serializable_calls_do_not_lose_to_the_layer
                a_conflict_that_is_told_or_noticed_is_reported_and_never_committed
                another_error_is_not_taken_for_a_conflict
                a_deadlock_in_a_savepoint_that_is_rolled_back_is_ignored
                a_change_of_the_schema_fails_one_attempt_on_each_connection
            }
            late_attempts {
                to_claim_keys_reserve_nothing
                whose_time_is_not_over_do_not_keep_a_call_from_being_abandoned
                that_are_answered_do_not_keep_the_key
                to_claim_a_key_that_another_call_holds_reserve_nothing
                to_begin_a_transaction_do_not_count_as_another_call
            }
            lost_answers {
                a_call_succeeds_if_the_server_commits_after_all
                a_call_without_a_key_is_not_run_again
                a_call_is_refused_if_the_server_rolls_back
                a_look_up_does_not_overshoot_its_deadline
            }
            operations {
                take_effect_once_and_give_their_response_to_each_delivery
                that_fail_leave_nothing_or_their_final_error
                whose_transaction_is_lost_may_be_delivered_again_whatever_their_handler_says
                that_can_never_succeed_leave_their_error_and_nothing_else
                whose_future_is_dropped_end_as_their_policy_says
            }
            outages {
                cause_few_logins_whatever_number_of_calls_wait
                of_a_role_with_few_connections_let_all_calls_pass
            }
            owned {
                are_committed_by_their_owner
                are_rolled_back_if_dropped_or_told_to
                without_a_user_see_no_users_rows
                are_begun_in_the_schema_of_the_store
                are_begun_in_the_transaction_pool_of_the_store
                do_not_commit_if_a_statement_has_failed_or_lost
            }
            reruns {
                two_that_each_write_what_the_other_reads_are_both_right
                two_that_wait_for_each_other_are_both_right
                a_conflict_in_the_commit_is_as_one_before
                a_conflict_that_is_told_or_noticed_is_run_again_whatever_the_handler_answers
                a_key_that_another_call_has_in_the_pause_is_answered_with_its_record
                are_at_most_ten_and_none_if_the_handler_says_so
                leave_the_handles_of_lost_attempts_dead
                of_many_calls_on_one_row_none_is_lost
            }
            reserved {
                a_call_is_reserved_while_it_runs_and_then_recorded_and_replayed
                a_call_renews_its_lease_as_long_as_it_runs
                a_call_that_fails_leaves_no_record_and_one_that_fails_for_good_leaves_one
                a_record_that_has_expired_is_swept
                a_call_without_a_store_is_refused_or_runs_unprotected_if_that_is_the_policy
                an_outcome_that_cannot_be_recorded_is_recorded_later
            }
            round_trips {
                are_at_most_one_more_than_those_of_the_handler_alone
                are_more_with_final_errors
            }
            savepoints {
                are_kept_or_rolled_back_alone
                one_whose_commit_fails_is_rolled_back
                are_rolled_back_if_dropped
                one_that_is_never_dropped_is_committed_with_the_call
                after_one_that_cannot_begin_no_statement_leaves_an_effect
                one_that_is_given_up_while_it_begins_leaves_an_effect_with_its_record_or_neither
                random_trees_leave_what_the_model_says
            }
            session {
                names_the_user_and_has_the_applications_settings
                lets_row_level_security_see_the_user
                keeps_the_record_for_its_user_whatever_the_handler_sets
                names_the_user_if_it_is_a_uuid_also_in_a_scope
                has_no_settings_of_the_call_before
                that_the_database_refuses_is_a_refusal
                is_there_for_the_status_of_a_replay
                that_a_handler_changes_for_good_is_not_the_next_calls
                with_names_that_are_not_the_applications_is_a_refusal
            }
            timeouts {
                roll_back_a_handler_that_hangs
                commit_nothing_of_a_task_that_goes_on
                leave_the_key_of_a_handler_that_blocks_to_the_server
            }
            without_key {
                a_call_that_succeeds_is_committed_and_not_recorded
                a_call_whose_key_field_is_empty_is_committed_and_not_recorded
                a_client_that_disconnects_cancels_its_call
                a_call_without_a_user_has_a_transaction_without_one
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// One that it does not name would never run.
    #[test]
    fn the_macro_names_every_test() {
        let mut tests = 0;
        for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("the sources") {
            let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
            for line in text.lines() {
                let test = line.strip_prefix("pub async fn ").and_then(|line| line.strip_suffix("<S: Stack>() {"));
                if let Some(test) = test {
                    assert!(include_str!("run.rs").contains(&format!("                {test}\n")), "{test}");
                    tests += 1;
                }
            }
        }
        assert!(tests > 80, "{tests}");
    }
}
