//! The scenarios. All properties hold in each.
//!
//! Each has three or four attempts: one fails, one takes over, and one or two meet what the others left.

use crate::{
    explore, properties as law,
    scenario::{Chaos, Foreign, Mode, Policy, Scenario, Server, StorePolicy},
    sights as see,
};

pub(crate) fn transactional() -> Scenario {
    Scenario {
        name: "transactional",
        servers: vec![server(Mode::Transactional, Policy::Rerun); 4],
        chaos: Chaos { crashes: 1, final_errors: true, losses: 1, restarts: 1, ..Chaos::default() },
        sights: vec![
            see::COMMIT_OUTLIVES_CONNECTION,
            see::COMMIT_SURVIVES_ITS_CLIENT,
            see::FINAL_ERROR_REPLAYED,
            see::FOUND_COMMITTED,
            see::FOUND_ROLLED_BACK,
            see::IN_FLIGHT,
            see::REPLAYED,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn transactional_expiring() -> Scenario {
    Scenario {
        name: "transactional, expiring",
        servers: vec![server(Mode::Transactional, Policy::Rerun); 3],
        chaos: Chaos { crashes: 2, expiries: 2, losses: 2, restarts: 1, ..Chaos::default() },
        sights: vec![see::FOUND_COMMITTED, see::RECORDED_AGAIN, see::REPLAYED],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn reserved_rerun() -> Scenario {
    Scenario {
        name: "reserved, rerun",
        servers: vec![server(Mode::Reserved, Policy::Rerun); 3],
        chaos: Chaos { crashes: 1, heartbeats: 1, losses: 1, zombies: true, ..Chaos::default() },
        sights: vec![
            see::FENCED,
            see::IN_FLIGHT,
            see::LATE_HEARTBEAT,
            see::OUTCOME_UNKNOWN,
            see::REPLAYED,
            see::SETTLED_IN_BACKGROUND,
            see::TAKEN_OVER_TWICE,
            see::TWO_EFFECTS,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn reserved_refuse() -> Scenario {
    Scenario {
        name: "reserved, refuse",
        servers: vec![server(Mode::Reserved, Policy::Refuse); 3],
        chaos: Chaos { crashes: 1, expiries: 1, final_errors: true, losses: 1, zombies: true, ..Chaos::default() },
        sights: vec![
            see::FINAL_ERROR_REPLAYED,
            see::IN_FLIGHT,
            see::OUTCOME_UNKNOWN,
            see::RECORDED_AGAIN,
            see::CLAIM_MAY_COME,
            see::REPLAYED,
            see::SETTLED_IN_BACKGROUND,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn reserved_reconcile() -> Scenario {
    Scenario {
        name: "reserved, reconcile",
        servers: vec![server(Mode::Reserved, Policy::Reconcile); 3],
        chaos: Chaos { crashes: 2, final_errors: true, losses: 2, ..Chaos::default() },
        sights: vec![
            see::FINAL_ERROR_REPLAYED,
            see::GIVEN_BACK,
            see::OUTCOME_UNKNOWN,
            see::RECONCILED,
            see::REPLAYED,
            see::TAKEN_OVER_TWICE,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn reserved_reconcile_zombies() -> Scenario {
    Scenario {
        name: "reserved, reconcile, zombies",
        chaos: Chaos { crashes: 1, losses: 1, zombies: true, ..Chaos::default() },
        sights: vec![see::FENCED, see::RECONCILED, see::REPLAYED, see::TAKEN_OVER_TWICE, see::TWO_EFFECTS],
        ..reserved_reconcile()
    }
}

pub(crate) fn reserved_policies() -> Scenario {
    let policies = [Policy::Rerun, Policy::Reconcile, Policy::Rerun];
    Scenario {
        name: "reserved, policies differ",
        servers: policies.map(|policy| server(Mode::Reserved, policy)).to_vec(),
        chaos: Chaos { crashes: 2, losses: 1, zombies: true, ..Chaos::default() },
        sights: vec![see::OUTCOME_UNKNOWN, see::RECONCILED, see::TAKEN_OVER_TWICE],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn mixed() -> Scenario {
    let modes = [Mode::Transactional, Mode::Reserved, Mode::Transactional];
    Scenario {
        name: "mixed",
        servers: modes.map(|mode| server(mode, Policy::Rerun)).to_vec(),
        chaos: Chaos { crashes: 1, final_errors: true, losses: 1, restarts: 1, zombies: true, ..Chaos::default() },
        sights: vec![
            see::COMMIT_REFUSED,
            see::FENCED,
            see::FOUND_COMMITTED,
            see::FOUND_ROLLED_BACK,
            see::REPLAYED,
            see::TWO_EFFECTS,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn mixed_refuse() -> Scenario {
    let modes = [Mode::Transactional, Mode::Reserved, Mode::GoInterceptor];
    Scenario {
        name: "mixed, refuse",
        servers: modes.map(|mode| server_beside_go(mode, Policy::Refuse)).to_vec(),
        chaos: Chaos { crashes: 2, losses: 2, restarts: 1, zombies: true, ..Chaos::default() },
        sights: vec![see::COMMIT_REFUSED, see::OUTCOME_UNKNOWN, see::REPLAYED],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn mixed_with_go_interceptor() -> Scenario {
    let modes = [Mode::Transactional, Mode::GoInterceptor, Mode::Reserved, Mode::Transactional];
    Scenario {
        name: "mixed with the Go interceptor",
        servers: modes.map(|mode| server_beside_go(mode, Policy::Rerun)).to_vec(),
        chaos: Chaos { crashes: 1, zombies: true, ..Chaos::default() },
        sights: vec![see::COMMIT_REFUSED, see::FENCED, see::REPLAYED, see::TAKEN_OVER, see::TWO_EFFECTS],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn mixed_reconcile() -> Scenario {
    let modes = [Mode::Transactional, Mode::GoInterceptor, Mode::Reserved, Mode::Reserved];
    Scenario {
        name: "mixed, reconcile",
        servers: modes.map(|mode| server_beside_go(mode, Policy::Reconcile)).to_vec(),
        chaos: Chaos { crashes: 1, losses: 1, ..Chaos::default() },
        sights: vec![see::GIVEN_BACK, see::RECONCILED, see::REPLAYED],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn beside_go_interceptor() -> Scenario {
    let modes = [Mode::GoInterceptor, Mode::GoInterceptor, Mode::Reserved, Mode::Transactional];
    Scenario {
        name: "beside the Go interceptor",
        servers: modes.map(|mode| server(mode, Policy::Rerun)).to_vec(),
        chaos: Chaos { crashes: 1, expiries: 1, losses: 1, ..Chaos::default() },
        sights: vec![see::FOREIGN_WAITS, see::RECORDED_AGAIN, see::REPLAYED],
        connections: None,
        left_out: None,
    }
}

/// The store answers, but slowly, with refusals, or untruthfully.
pub(crate) fn fooled() -> Scenario {
    Scenario {
        name: "reserved, fooled",
        servers: vec![proceeding_server(Mode::Reserved, Policy::Rerun); 3],
        chaos: Chaos {
            losses: 1,
            misleading_answers: 1,
            open_transactions: 1,
            refusals: 1,
            slow_statuses: 1,
            ..Chaos::default()
        },
        sights: vec![see::CLAIM_MAY_COME, see::FREED_IN_BACKGROUND, see::NOT_RUN, see::REPLAYED_DESPITE_STATUS],
        connections: None,
        left_out: None,
    }
}

/// The store cannot be reached for a while, and the policy is to proceed.
pub(crate) fn proceeding() -> Scenario {
    Scenario {
        name: "reserved, proceeding",
        servers: vec![proceeding_server(Mode::Reserved, Policy::Rerun); 3],
        chaos: Chaos { losses: 1, outages: 1, zombies: true, ..Chaos::default() },
        sights: vec![
            see::CLAIM_MAY_COME,
            see::SETTLED_IN_BACKGROUND,
            see::TAKEN_OVER,
            see::UNHELD_RUN,
            see::UNPROTECTED_AND_FENCED,
            see::UNPROTECTED_AND_RECORDED,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn proceeding_reconcile() -> Scenario {
    Scenario {
        name: "reserved, proceeding, reconcile",
        servers: vec![proceeding_server(Mode::Reserved, Policy::Reconcile); 3],
        chaos: Chaos { losses: 1, outages: 1, ..Chaos::default() },
        sights: vec![see::RECONCILED, see::TAKEN_OVER, see::UNHELD_RUN, see::UNPROTECTED_AND_RECORDED],
        ..proceeding()
    }
}

pub(crate) fn proceeding_and_rejecting() -> Scenario {
    let mut scenario = proceeding();
    scenario.name = "proceeding and rejecting, refuse";
    scenario.chaos.crashes = 1;
    scenario.servers = vec![
        server(Mode::Reserved, Policy::Refuse),
        proceeding_server(Mode::Reserved, Policy::Refuse),
        proceeding_server(Mode::Transactional, Policy::Refuse),
    ];
    scenario.sights = vec![see::FREED_IN_BACKGROUND, see::NOT_RUN, see::UNHELD_RUN, see::UNPROTECTED_AND_RECORDED];
    scenario
}

/// Two other users hold transactions in the same pool.
pub(crate) fn pools() -> Scenario {
    Scenario {
        name: "pools",
        servers: vec![
            proceeding_server(Mode::Reserved, Policy::Rerun),
            proceeding_server(Mode::Reserved, Policy::Rerun),
            server(Mode::Transactional, Policy::Rerun),
        ],
        chaos: Chaos { full_pools: 1, losses: 1, others: 3, ..Chaos::default() },
        sights: vec![see::FREED_IN_BACKGROUND, see::IN_FLIGHT, see::NOT_RUN, see::REPLAYED],
        connections: Some(3),
        left_out: None,
    }
}

/// Conflicts, and a pooler that answers a COMMIT with an error.
pub(crate) fn transactional_fooled() -> Scenario {
    Scenario {
        name: "transactional, fooled",
        servers: vec![server(Mode::Transactional, Policy::Rerun); 3],
        chaos: Chaos {
            conflicts: 2,
            crashes: 1,
            final_errors: true,
            misleading_answers: 2,
            outages: 1,
            ..Chaos::default()
        },
        sights: vec![see::CONFLICT, see::FOUND_COMMITTED, see::FOUND_ROLLED_BACK, see::NOT_RUN, see::REPLAYED],
        connections: None,
        left_out: None,
    }
}

/// Calls share statements: claims, looks and settlements.
pub(crate) fn together() -> Scenario {
    Scenario {
        name: "together",
        servers: vec![batching(server(Mode::Reserved, Policy::Rerun)); 3],
        chaos: Chaos { bad_rows: 1, losses: 1, ..Chaos::default() },
        sights: vec![
            see::CLAIM_MAY_COME,
            see::FREED_IN_BACKGROUND,
            see::IN_FLIGHT,
            see::NOT_RUN,
            see::REPLAYED,
            see::SHARED,
        ],
        connections: None,
        left_out: None,
    }
}

pub(crate) fn together_reconcile() -> Scenario {
    Scenario {
        name: "together, reconcile",
        servers: vec![batching(server(Mode::Reserved, Policy::Reconcile)); 3],
        chaos: Chaos { crashes: 1, losses: 1, ..Chaos::default() },
        sights: vec![see::OUTCOME_UNKNOWN, see::RECONCILED, see::REPLAYED, see::SHARED, see::TAKEN_OVER],
        connections: None,
        left_out: None,
    }
}

/// A server in transactional mode looks before it begins, and one in reserved mode has batches.
pub(crate) fn together_mixed() -> Scenario {
    let modes = [Mode::Transactional, Mode::Reserved, Mode::Transactional];
    Scenario {
        name: "together, mixed",
        servers: modes.map(|mode| batching(server(mode, Policy::Rerun))).to_vec(),
        chaos: Chaos { crashes: 1, expiries: 1, losses: 1, ..Chaos::default() },
        sights: vec![see::FOUND_COMMITTED, see::IN_FLIGHT, see::RECORDED_AGAIN, see::REPLAYED],
        connections: None,
        left_out: None,
    }
}

#[cfg(feature = "full")]
const ALL: [fn() -> Scenario; 21] = [
    beside_go_interceptor,
    fooled,
    pools,
    proceeding,
    proceeding_and_rejecting,
    proceeding_reconcile,
    transactional_fooled,
    transactional,
    transactional_expiring,
    reserved_rerun,
    reserved_refuse,
    reserved_reconcile,
    reserved_reconcile_zombies,
    reserved_policies,
    mixed,
    mixed_reconcile,
    mixed_refuse,
    mixed_with_go_interceptor,
    together,
    together_mixed,
    together_reconcile,
];

fn server(mode: Mode, on_lease_ended: Policy) -> Server {
    let on_store_unavailable = StorePolicy::Reject;
    Server { mode, on_foreign_reservation: Foreign::InProgress, on_lease_ended, on_store_unavailable, batches: false }
}

fn server_beside_go(mode: Mode, on_lease_ended: Policy) -> Server {
    Server { on_foreign_reservation: Foreign::OnLeaseEnded, ..server(mode, on_lease_ended) }
}

fn proceeding_server(mode: Mode, on_lease_ended: Policy) -> Server {
    Server { on_store_unavailable: StorePolicy::Proceed, ..server(mode, on_lease_ended) }
}

fn batching(server: Server) -> Server {
    Server { batches: true, ..server }
}

#[test]
fn keeps_one_effect_and_its_record_together_in_transactional_mode() {
    explore::holds(transactional());
}

#[test]
fn keeps_one_effect_and_its_record_together_while_records_expire() {
    explore::holds(transactional_expiring());
}

#[test]
fn has_a_second_effect_with_rerun_only_after_a_lease_ended() {
    explore::holds(reserved_rerun());
}

#[test]
fn has_no_second_effect_with_refuse() {
    explore::holds(reserved_refuse());
}

#[test]
fn has_no_second_effect_with_a_truthful_reconciler() {
    explore::holds(reserved_reconcile());
}

#[test]
fn has_a_second_effect_beside_zombies_only_after_a_lease_ended() {
    explore::holds(reserved_reconcile_zombies());
}

#[test]
fn does_not_rerun_an_abandoned_call_if_policies_differ() {
    explore::holds(reserved_policies());
}

#[test]
fn keeps_a_transactional_effect_and_its_record_together_beside_a_reserved_server() {
    explore::holds(mixed());
}

#[test]
fn has_no_second_effect_in_mixed_modes_with_a_truthful_reconciler() {
    explore::holds(mixed_reconcile());
}

#[test]
fn has_no_second_effect_in_mixed_modes_with_refuse() {
    explore::holds(mixed_refuse());
}

#[test]
fn keeps_a_transactional_effect_and_its_record_together_beside_a_go_interceptor() {
    explore::holds(mixed_with_go_interceptor());
}

#[test]
fn has_no_second_effect_beside_a_go_interceptor_by_default() {
    explore::holds(beside_go_interceptor());
}

#[test]
fn runs_nothing_unprotected_if_the_store_is_slow_or_refuses_or_misleads() {
    explore::holds(fooled());
}

#[test]
fn runs_nothing_unprotected_if_the_pool_is_full_and_starves_nobody() {
    explore::holds(pools());
}

#[test]
fn has_a_second_effect_of_an_unprotected_run_only_if_its_claim_does_not_stand() {
    explore::holds(proceeding());
}

#[test]
fn has_a_second_effect_of_an_unprotected_run_only_if_its_claim_does_not_stand_with_reconcile() {
    explore::holds(proceeding_reconcile());
}

#[test]
fn runs_unprotected_only_where_the_policy_is_to_proceed() {
    explore::holds(proceeding_and_rejecting());
}

#[test]
fn keeps_one_effect_and_its_record_together_while_conflicts_happen_and_answers_mislead() {
    explore::holds(transactional_fooled());
}

#[test]
fn has_one_effect_and_forgets_no_reservation_if_calls_share_statements() {
    explore::holds(together());
}

#[test]
fn has_no_second_effect_with_a_truthful_reconciler_if_calls_share_statements() {
    explore::holds(together_reconcile());
}

#[test]
fn keeps_a_transactional_effect_and_its_record_together_if_a_look_comes_first() {
    explore::holds(together_mixed());
}

#[test]
fn ends_every_run() {
    for scenario in [transactional_expiring(), reserved_rerun(), mixed_refuse(), fooled(), pools(), together()] {
        explore::ends(&scenario);
    }
}

/// Explores millions of states.
#[cfg(feature = "full")]
#[test]
fn holds_when_more_goes_wrong() {
    for scenario in ALL.map(|scenario| scenario()) {
        let Chaos { crashes, losses, .. } = scenario.chaos;
        let chaos = Chaos { crashes: crashes + 1, losses: losses + 1, ..scenario.chaos };
        explore::holds(Scenario { chaos, ..scenario });
    }
}

/// A limit of the Go interceptor: it takes a final error, which is stored without a response, for its own reservation.
/// If such a server is slow to settle a reservation that was taken over, it completes or deletes the record of the
/// error.
#[test]
fn does_not_protect_a_final_error_from_a_go_interceptor_that_outlives_its_lease() {
    let mixed = mixed_with_go_interceptor();
    let chaos = Chaos { final_errors: true, ..mixed.chaos };
    explore::violates(
        Scenario { name: "mixed with the Go interceptor and final errors", chaos, ..mixed },
        law::RECORDS_ARE_FINAL,
    );
}
