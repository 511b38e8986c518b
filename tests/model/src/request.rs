//! Requests of a reserved call to the database, and what can become of them.

use crate::{
    guards::Guard,
    pool,
    record::{self, View},
    scenario::{Chaos, Scenario},
    world::{AttemptId, Stage, World},
};

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// The request is carried out, and its answer is lost.
    AnswerLost,
    /// The request is not sent: no connection is free.
    FullPool,
    /// No answer comes in time, or the connection is lost. A claim may still be carried out at any time.
    Lost,
    /// The request is carried out, and a pooler that has lost its server answers with an error.
    Misleading,
    /// The request is sent on a connection that came with an open transaction.
    OpenTransaction,
    /// The database refuses the request: a grant is missing, a row is corrupt, or the request lost a conflict.
    Refused,
    /// The claim finds a completed record, but the status of the created resource does not come in time.
    SlowStatus,
    /// The request is not sent: the database cannot be reached.
    Unsent,
}

impl Fate {
    /// Takes the fate from the failures that are left, unless it happens by itself.
    pub(crate) fn spend(self, left: &mut Chaos) {
        let budget = match self {
            Self::Answered | Self::Unsent => return,
            Self::AnswerLost | Self::Lost => &mut left.losses,
            Self::FullPool => &mut left.full_pools,
            Self::Misleading => &mut left.misleading_answers,
            Self::OpenTransaction => &mut left.open_transactions,
            Self::Refused => &mut left.refusals,
            Self::SlowStatus => &mut left.slow_statuses,
        };
        *budget = budget.saturating_sub(1);
    }
}

/// The possible fates of a claim.
pub(crate) fn fates_of_claim(scenario: &Scenario, world: &World, id: AttemptId) -> Vec<Fate> {
    let left = &world.left;
    if world.is_away {
        let attempt = &world.attempts[id];
        let forgets = attempt.claim_may_stand && !scenario.holds(Guard::SentClaimsAreRemembered);
        let changes = attempt.stage != Stage::Claiming || forgets;
        return possible(&[(changes, Fate::Unsent), (left.losses > 0, Fate::Lost)]);
    }
    if pool::is_full(scenario, world) {
        return vec![Fate::FullPool];
    }
    let is_completed = matches!(record::view(scenario, world, id), View::Completed(_));
    possible(&[
        (true, Fate::Answered),
        (left.losses > 0, Fate::AnswerLost),
        (left.full_pools > 0, Fate::FullPool),
        (left.losses > 0, Fate::Lost),
        (left.misleading_answers > 0, Fate::Misleading),
        (left.open_transactions > 0, Fate::OpenTransaction),
        (left.refusals > 0, Fate::Refused),
        (left.slow_statuses > 0 && is_completed, Fate::SlowStatus),
    ])
}

/// The possible fates of a settlement. One that fails is sent again, whatever the failure was.
pub(crate) fn fates_of_settlement(scenario: &Scenario, world: &World, id: AttemptId) -> Vec<Fate> {
    let left = &world.left;
    if world.is_away || pool::is_full(scenario, world) {
        let is_first = world.attempts[id].answer.is_none();
        return possible(&[(is_first, Fate::Unsent)]);
    }
    possible(&[
        (true, Fate::Answered),
        (left.losses > 0, Fate::AnswerLost),
        (left.losses > 0, Fate::Lost),
        (left.refusals > 0, Fate::Refused),
    ])
}

fn possible(fates: &[(bool, Fate)]) -> Vec<Fate> {
    fates.iter().filter(|(is_possible, _)| *is_possible).map(|&(_, fate)| fate).collect()
}
