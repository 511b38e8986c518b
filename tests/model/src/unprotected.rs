//! A reserved call whose claim got no answer: refused, or run unprotected.

use crate::{
    guards::Guard,
    scenario::{Scenario, StorePolicy},
    world::{Answer, AttemptId, Disposition, Record, Stage, World},
};

/// The answer of the probe: can the store be asked at all?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Answered,
    Lost,
}

/// The possible results of a probe.
pub(crate) fn probes(world: &World) -> impl Iterator<Item = Probe> + use<> {
    let answered = (!world.is_away).then_some(Probe::Answered);
    let lost = (world.is_away || world.left.losses > 0).then_some(Probe::Lost);
    answered.into_iter().chain(lost)
}

/// No claim was answered: the probe decides whether the store is slow, or cannot be asked.
pub(crate) fn decide(scenario: &Scenario, world: &mut World, id: AttemptId, probe: Probe) {
    if probe == Probe::Lost && !world.is_away {
        world.left.losses -= 1;
    }
    match probe {
        Probe::Answered if scenario.holds(Guard::SlowStoreIsNotUnreachable) => refuse(scenario, world, id),
        Probe::Answered => degrade(scenario, world, id, true),
        Probe::Lost => degrade(scenario, world, id, false),
    }
}

/// Answers without running the handler. If a claim may stand, it is released in the background.
pub(crate) fn refuse(scenario: &Scenario, world: &mut World, id: AttemptId) {
    let attempt = &mut world.attempts[id];
    if attempt.claim_may_stand && scenario.holds(Guard::RefusedCallReleases) {
        attempt.answer = Some(Answer::NotRun);
        attempt.stage = Stage::Settling(Disposition::Release);
    } else {
        attempt.end(Answer::NotRun);
    }
}

/// Runs the handler without a reservation that it knows of, or refuses the call, by policy.
pub(crate) fn degrade(scenario: &Scenario, world: &mut World, id: AttemptId, is_reachable: bool) {
    let proceeds = scenario.servers[id].on_store_unavailable == StorePolicy::Proceed;
    if !proceeds && scenario.holds(Guard::RejectDoesNotProceed) {
        return refuse(scenario, world, id);
    }
    let is_its_own = |record: &Record| record.owner == id && record.outcome.is_none() && record.takeovers == 0;
    let is_held = world.record.as_ref().is_some_and(is_its_own);
    world.history.proceeded_though_reachable |= is_reachable;
    world.life_mut().unheld_runs += u8::from(proceeds && !is_held);
    world.attempts[id].life = Some(world.life());
    world.attempts[id].stage = Stage::Unprotected;
}

/// Whether the outcome of an unprotected run is recorded.
pub(crate) fn is_recorded(scenario: &Scenario, world: &World, id: AttemptId) -> bool {
    world.attempts[id].claim_may_stand && scenario.holds(Guard::UnprotectedRunsAreRecorded)
}
