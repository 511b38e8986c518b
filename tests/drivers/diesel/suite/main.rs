//! The driver for diesel-async on a real PostgreSQL: the tests of every driver, and its own.

mod commits;
mod conflicts;
mod connections;
mod handle;
mod instrumentation;
mod savepoints;
mod sqlstates;
mod stack;

mod every_driver {
    use crate::stack::DeadpoolStack;

    driver_suite::driver_tests!(DeadpoolStack);
}

/// Tests that depend on the pool.
mod on_bb8 {
    use crate::stack::Bb8Stack;

    mod conformance_on_a_server {
        use super::*;

        driver_suite::conformance_tests!(driver_suite::Stores::<Bb8Stack>::on_a_server());
    }

    driver_suite::driver_tests! {
        @tests Bb8Stack;
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
            one_is_enough_for_many_calls
        }
        cuts {
            that_are_cut_at_the_commit_are_looked_up
            that_are_silent_before_a_call_are_replaced
        }
        disconnects {
            roll_back_and_keep_the_connection
            end_the_statement_that_does_not_end_in_time
            leave_clean_connections_whatever_they_interrupt
        }
        errors {
            of_a_login_are_told_apart
            of_stale_statements_are_not_seen
            of_lost_and_silent_connections_are_not_seen
        }
        isolation {
            a_change_of_the_schema_fails_one_attempt_on_each_connection
        }
    }
}
