//! The table of faults: the series that Prometheus has then, and when a rule fires.

use tonic_idempotency_tests::rules::PROCEDURE;

/// A fault, or a healthy time: series and their values, from one step to the next, and steps after which the rule fires, or not.
pub(crate) struct Fault {
    pub(crate) alert: &'static str,
    pub(crate) when: &'static str,
    /// The minutes of a step.
    pub(crate) step: u32,
    pub(crate) series: Vec<(String, &'static str)>,
    pub(crate) fires: &'static [u32],
    pub(crate) silent: &'static [u32],
}

/// A row of the tables below: when, the values of each series, and when the rule fires, and when not.
type Row<const N: usize> = (&'static str, [&'static str; N], &'static [u32], &'static [u32]);

/// A counter of what should never happen.
const NEVER: [Row<1>; 5] = [
    ("nothing new", ["5x60"], &[], &[15, 30, 60]),
    ("the first increment of a new series", ["_x20 1x40"], &[22, 28], &[10, 19, 35, 60]),
    ("one more", ["1x20 2x40"], &[22, 28], &[15, 20, 35, 60]),
    // The sum over time is smaller than before.
    ("a restart, and one more after it", ["5x20 _x3 1x40"], &[26, 30], &[15, 20, 40, 60]),
    ("a restart that takes long", ["5x20 _x15 1x40"], &[38, 44], &[15, 20, 50, 60]),
];

/// Refusals, and all calls.
const REFUSALS: [Row<2>; 4] = [
    ("half of the calls, for a while", ["_x20 30+30x19 600x60", "0+60x100"], &[28, 38], &[10, 20, 22, 50, 80]),
    ("1 of 200", ["0+5x100", "0+1000x100"], &[], &[10, 30, 90]),
    ("a restart in the middle", ["0+30x29 _x2 0+30x60", "0+60x29 _x2 0+60x60"], &[20, 30, 33, 60], &[1]),
    ("a restart afterwards", ["600x29 _x2 0x60", "0+60x29 _x2 0+60x60"], &[], &[20, 30, 33, 60]),
];

/// A histogram: the times up to the threshold, up to the next bound, and all.
const TIMES: [Row<3>; 4] = [
    ("as they should be", ["0+10x100"; 3], &[], &[10, 50, 100]),
    (
        "half are longer, for half an hour",
        ["0+10x30 305+5x29 460+10x60", "0+10x120", "0+10x120"],
        &[45, 60],
        &[20, 35, 75, 100],
    ),
    (
        "a restart in the middle",
        ["0+10x30 305+5x13 _x2 0+5x30", "0+10x44 _x2 0+10x30", "0+10x44 _x2 0+10x30"],
        &[44, 46, 48, 70],
        &[20, 35],
    ),
    ("a restart as they should be", ["0+10x44 _x2 0+10x60"; 3], &[], &[30, 46, 50, 100]),
];

const WAITING: [Row<1>; 3] = [
    ("some, for a while", ["0x10 3x20 0x20"], &[17, 30], &[5, 14, 33]),
    ("for a short time, again and again", ["1x3 0 1x3 0 1x3 0 1x3 0x20"], &[], &[3, 8, 12, 20]),
    ("lost in a restart", ["3x20 stale 0x20"], &[10, 20], &[3, 22, 40]),
];

/// The gauges of two servers.
const UNKNOWN: [Row<2>; 3] = [
    ("one, until it is gone", ["0x10 1x90 0x20", "0x120"], &[22, 60, 100], &[5, 19, 102, 120]),
    ("one, over a restart", ["1x20 stale _x2 1x20 0x20", "_x70"], &[15, 22, 30, 44], &[46, 60]),
    ("a server that is gone for good", ["1x20 stale", "0x60"], &[15], &[5, 28, 60]),
];

const LEASES: [Row<1>; 3] = [
    ("ten", ["0x20 1+1x9 10x60"], &[27, 35], &[20, 22, 50]),
    ("two", ["0x20 2x60"], &[], &[22, 30, 60]),
    ("two, a restart, and five", ["0x20 1 2 _x2 0+1x5 5x60"], &[30, 35], &[20, 22, 60]),
];

/// The calls in flight of a server, and its limit.
const IN_FLIGHT: [Row<2>; 4] = [
    ("900 of 1,024, for a while", ["100x20 900x20 100x60", "1024x100"], &[27, 40], &[10, 24, 43, 90]),
    ("900 of 2,048", ["900x60", "2048x60"], &[], &[10, 30, 60]),
    ("9 of 10", ["0x10 9x20 0x10", "10x40"], &[20], &[5, 33]),
    ("a restart", ["900x20 stale _x1 10x30", "1024x20 stale _x1 1024x30"], &[10, 20], &[3, 22, 40]),
];

const REUSED: [Row<1>; 3] = [
    ("twenty", ["0x20 1+1x19 20x120"], &[36, 60], &[20, 25, 110]),
    ("five", ["0x20 1+1x4 5x120"], &[], &[20, 40, 80]),
    ("eight, a restart, and eight", ["0x20 1+1x7 _x2 0+1x8 8x120"], &[45, 60], &[20, 27, 110]),
];

/// Deleted records, and first calls, in steps of half an hour: a day has 48.
const SWEPT: [Row<2>; 6] = [
    ("no sweeper, ever", ["_x200", "0+30x200"], &[57, 100, 200], &[30, 50]),
    ("a sweeper", ["0x48 30+30x150", "0+30x200"], &[], &[30, 57, 100, 190]),
    (
        "a sweeper that ends, and begins again",
        ["0x48 30+30x23 720x60 750+30x40", "0+30x200"],
        &[127, 132],
        &[57, 100, 120, 135, 170],
    ),
    (
        "restarts",
        ["0x48 30+30x30 _x1 0+30x30 _x1 0+30x60", "0+30x79 _x1 0+30x30 _x1 0+30x60"],
        &[],
        &[57, 81, 85, 112, 170],
    ),
    ("a sweeper that has nothing to delete, since there are no calls", ["0x200", "7x200"], &[], &[30, 57, 200]),
    ("no sweeper, and calls since today", ["_x47", "0+30x47"], &[], &[10, 47]),
];

pub(crate) fn faults() -> Vec<Fault> {
    let counter = |name: &str| [of(name, "")];
    let reason = |reason: &str| of("idempotency_rejected_total", &format!(r#"reason="{reason}""#));
    let refusals = |it| [reason(it), of("idempotency_calls_total", r#"outcome="rejected""#)];
    let buckets = |name: &str, bounds: [&str; 2]| {
        [bounds[0], bounds[1], "+Inf"].map(|bound| of(&format!("{name}_seconds_bucket"), &format!(r#"le="{bound}""#)))
    };
    let servers = |name: &str| ["a", "b"].map(|server| format!(r#"{name}{{instance="{server}"}}"#));
    let swept = ["idempotency_swept_total".to_owned(), of("idempotency_calls_total", r#"outcome="first""#)];
    let in_flight =
        ["idempotency_in_flight", "idempotency_in_flight_limit"].map(|name| format!("{name}{{instance=\"a\"}}"));
    [
        rows("IdempotencyCallsRunUnprotected", counter("idempotency_unprotected_total"), NEVER),
        rows("IdempotencyOutcomesGivenUp", counter("idempotency_outcomes_given_up_total"), NEVER),
        rows("IdempotencyStoreFails", [reason("IDEMPOTENCY_STORE_FAILED")], NEVER),
        rows("IdempotencyHandlersTimedOut", counter("idempotency_handler_timeouts_total"), NEVER),
        rows("IdempotencyStoreAway", refusals("IDEMPOTENCY_STORE_UNAVAILABLE"), REFUSALS),
        rows("IdempotencyOverloaded", refusals("IDEMPOTENCY_OVERLOADED"), REFUSALS),
        rows("IdempotencyOutcomesWait", ["idempotency_outcomes_waiting".to_owned()], WAITING),
        rows("IdempotencyOutcomesUnknown", servers("idempotency_unknown"), UNKNOWN),
        rows("IdempotencyLeasesLost", counter("idempotency_lease_lost_total"), LEASES),
        rows("IdempotencyCallsInFlight", in_flight, IN_FLIGHT),
        rows("IdempotencyClaimsSlow", buckets("idempotency_claim", ["0.25", "0.5"]), TIMES),
        rows("IdempotencyRecordsSlow", buckets("idempotency_record", ["0.5", "1"]), TIMES),
        rows("IdempotencyHandlersSlow", buckets("idempotency_handler", ["30", "60"]), TIMES),
        rows("IdempotencyCallsWaitLong", buckets("idempotency_wait", ["5", "30"]), TIMES),
        rows("IdempotencyKeysReused", [reason("IDEMPOTENCY_KEY_REUSED")], REUSED),
        rows("IdempotencyNothingSwept", swept, SWEPT).into_iter().map(|fault| Fault { step: 30, ..fault }).collect(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A series of the procedure, with another label.
fn of(name: &str, label: &str) -> String {
    let comma = if label.is_empty() { "" } else { "," };
    format!(r#"{name}{{procedure="{PROCEDURE}"{comma}{label}}}"#)
}

fn rows<const N: usize, const ROWS: usize>(
    alert: &'static str,
    series: [String; N],
    rows: [Row<N>; ROWS],
) -> Vec<Fault> {
    let fault = |(when, values, fires, silent): Row<N>| {
        let series = series.iter().cloned().zip(values).collect();
        Fault { alert, when, step: 1, series, fires, silent }
    };
    rows.into_iter().map(fault).collect()
}
