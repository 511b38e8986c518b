//! Reduces a plan that breaks a promise, to one that a person can follow: [`shrink`].

use std::collections::BTreeSet;

use crate::{
    plan::{Omitted, Plan},
    run::{Report, run},
    world::Keeps,
};

/// Leaves out faults, operations, repeats and slow work for as long as the same promise is broken. Tells each step. Returns what can be left out.
pub fn shrink(plan: &Plan, promise: &str, mut tell: impl FnMut(&Omitted)) -> Omitted {
    let breaks = |omitted: &Omitted| {
        let Report { violations, .. } = run(plan.clone().without(omitted), Keeps::Nothing);
        violations.iter().any(|violation| violation.promise == promise)
    };
    let mut omitted = Omitted::default();
    loop {
        let before = omitted.clone();
        let faults = plan.faults.iter().map(|fault| fault.number).collect();
        omitted.faults =
            reduce(faults, &omitted.faults, |faults| breaks(&Omitted { faults: faults.clone(), ..omitted.clone() }));
        let operations = plan.operations.iter().map(|operation| operation.number).collect();
        omitted.operations = reduce(operations, &omitted.operations, |operations| {
            breaks(&Omitted { operations: operations.clone(), ..omitted.clone() })
        });
        let left: Vec<_> = plan.clone().without(&omitted).operations.iter().map(|operation| operation.number).collect();
        omitted.repeats = reduce(left.clone(), &omitted.repeats, |repeats| {
            breaks(&Omitted { repeats: repeats.clone(), ..omitted.clone() })
        });
        omitted.slow_work = reduce(left, &omitted.slow_work, |slow_work| {
            breaks(&Omitted { slow_work: slow_work.clone(), ..omitted.clone() })
        });
        tell(&omitted);
        if omitted == before {
            break;
        }
    }
    omitted
}

/// Leaves out as many of these numbers as may be: halves first, then smaller pieces, at last one by one.
fn reduce(all: Vec<usize>, omitted: &BTreeSet<usize>, breaks: impl Fn(&BTreeSet<usize>) -> bool) -> BTreeSet<usize> {
    let mut omitted = omitted.clone();
    let mut size = all.len().div_ceil(2);
    while size > 0 {
        let left: Vec<_> = all.iter().copied().filter(|number| !omitted.contains(number)).collect();
        for piece in left.chunks(size) {
            let more: BTreeSet<_> = omitted.iter().copied().chain(piece.iter().copied()).collect();
            if breaks(&more) {
                omitted = more;
            }
        }
        size /= 2;
    }
    omitted
}
