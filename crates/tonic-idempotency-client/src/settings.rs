//! The settings of retries, and the order of attempts.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use tokio::time::Instant;
use tonic_idempotency_wire::MAX_MESSAGE_BYTES;
use tower::retry::budget::{Budget as _, TpsBudget};

use crate::{
    expiry::Expiry,
    verdict::{Others, Verdict},
};

/// The budget limits the further attempts of all calls together, so that they do not make an outage worse. It allows a share of the
/// calls that were answered in this time, and a number of attempts per second besides.
const BUDGET_WINDOW: Duration = Duration::from_secs(10);
const BUDGET_PER_SECOND: u32 = 10;
const BUDGET_SHARE: f32 = 0.2;

/// How a layer sends calls again.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) allows_unprotected: bool,
    pub(crate) attempts: u32,
    pub(crate) attempt_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) delays: [Duration; 2],
    pub(crate) hedge_after: Option<Duration>,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_response_bytes: usize,
    pub(crate) requires_protection: bool,
    budget: TpsBudget,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allows_unprotected: false,
            attempts: 10,
            attempt_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(60),
            delays: [Duration::from_millis(50), Duration::from_secs(5)],
            hedge_after: None,
            max_request_bytes: MAX_MESSAGE_BYTES,
            max_response_bytes: MAX_MESSAGE_BYTES,
            requires_protection: false,
            budget: TpsBudget::new(BUDGET_WINDOW, BUDGET_PER_SECOND, BUDGET_SHARE),
        }
    }
}

impl Settings {
    /// Takes a further attempt from the budget. Returns whether the budget had one.
    pub(crate) fn spend(&self) -> bool {
        self.budget.withdraw()
    }
}

/// The least time that an attempt needs. An attempt that begins with less would only replace the last answer by "not in time".
const LEAST: Duration = Duration::from_millis(10);

/// The attempts of one operation.
#[derive(Debug)]
pub(crate) struct Attempts {
    made: u32,
    /// The number of attempts that were due and not sent, as the server had not said whether it protects the procedure.
    withheld: u32,
    /// Whether the next one only asks for a call that runs.
    is_poll: bool,
    /// The number of times that the server was only asked for a call that runs.
    polls: u32,
    /// When the last attempt was given up that may be under way.
    given_up: Option<Instant>,
    /// When the attempt was sent that was sent last.
    sent: Instant,
    /// Whether the budget has refused a further attempt, because all calls together have used it up.
    is_refused_by_budget: bool,
    began: Instant,
    deadline: Expiry,
    /// The longest that the next random pause can be: twice its mean.
    delays: ExponentialBackoff,
}

impl Attempts {
    /// The attempts of an operation with this timeout. Without one, the timeout is that of the settings.
    pub(crate) fn new(settings: &Settings, timeout: Option<Duration>) -> Self {
        let [first, longest] = settings.delays;
        let delays = ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
        let timeout = timeout.unwrap_or(settings.operation_timeout);
        let (began, deadline, given_up) = (Instant::now(), Expiry::after(timeout), None);
        Self {
            made: 1,
            withheld: 0,
            is_poll: false,
            polls: 0,
            given_up,
            sent: began,
            is_refused_by_budget: false,
            began,
            deadline,
            delays: delays.build(),
        }
    }

    /// The time at which the operation ends: nothing is sent after it.
    pub(crate) fn deadline(&self) -> Expiry {
        self.deadline
    }

    /// Has the operation end at this time at the latest, as its key may not protect it for longer.
    pub(crate) fn end_by(&mut self, expiry: Expiry) {
        self.deadline = self.deadline.min(expiry);
    }

    /// The number of attempts made, including the one under way.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// The number of times that the server was asked before the attempt under way.
    pub(crate) fn before(&self) -> u32 {
        self.made.saturating_sub(1) + self.polls
    }

    /// The time at which the attempt that is under way ends.
    pub(crate) fn end(&self, settings: &Settings) -> Instant {
        let deadline = self.deadline.by_timers();
        Instant::now().checked_add(settings.attempt_timeout).map_or(deadline, |end| end.min(deadline))
    }

    /// Returns the pause before the next attempt; `None` if there is no next attempt. A request that only asks for a call that runs does not
    /// count as an attempt. An attempt that takes the place of a late one takes nothing from the budget. The operation's deadline bounds both.
    pub(crate) fn next(&mut self, verdict: Verdict, settings: &Settings) -> Option<Duration> {
        let asked = match verdict {
            Verdict::Again(asked) | Verdict::Running(asked) => asked,
            Verdict::Late => None,
            Verdict::Ended | Verdict::Unknown => {
                settings.budget.deposit();
                return None;
            }
        };
        let [least, longest] = settings.delays;
        // "Full jitter": clients that fail at one time do not come back at one time.
        let jittered = self.delays.next().unwrap_or(longest).mul_f64(fastrand::f64());
        let mut pause = asked.map_or(jittered, |asked| asked.saturating_add(jittered.min(asked / 10)));
        let is_running = matches!(verdict, Verdict::Running(_));
        if is_running {
            pause = pause.max(least);
        }
        let left = self.deadline.left();
        if pause.saturating_add(LEAST) >= left || !is_running && self.made + self.withheld >= settings.attempts {
            return None;
        }
        if matches!(verdict, Verdict::Again(_)) && !settings.spend() {
            self.is_refused_by_budget = true;
            return None;
        }
        self.made += u32::from(!is_running);
        self.polls += u32::from(is_running);
        self.is_poll = is_running;
        Some(pause)
    }

    /// Notes that the attempt that is due is not sent.
    pub(crate) fn withhold(&mut self) {
        if self.is_poll {
            self.polls = self.polls.saturating_sub(1);
        } else {
            self.made = self.made.saturating_sub(1);
        }
        self.withheld += 1;
    }

    pub(crate) fn are_refused_by_budget(&self) -> bool {
        self.is_refused_by_budget
    }

    /// The time since the first attempt.
    pub(crate) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns whether the next answer may be that of one of several attempts.
    pub(crate) fn are_several(&self) -> bool {
        self.before() > 0
    }

    /// Returns what is known of the attempts before the last one, or beside it. One that was given up counts as under way for the time
    /// of another attempt: a server that is slow, or cut off, takes no longer to begin with it, or to drop it.
    pub(crate) fn others(&self, settings: &Settings) -> Others {
        // The server may have got it in time and let it wait for an attempt that was sent until then, and has failed since.
        let timeout = settings.attempt_timeout;
        match self.given_up {
            Some(at) if self.sent.saturating_duration_since(at) < timeout => {
                Others::UnderWay(timeout.saturating_sub(at.elapsed()))
            }
            None if !self.are_several() => Others::None,
            _ => Others::Over,
        }
    }

    /// Notes that an attempt is sent now.
    pub(crate) fn sends(&mut self) {
        self.sent = Instant::now();
    }

    /// Notes that an attempt was given up at this time, and may be under way.
    pub(crate) fn give_up(&mut self, at: Option<Instant>) {
        self.given_up = self.given_up.max(at);
    }

    pub(crate) fn given_up(&self) -> Option<Instant> {
        self.given_up
    }

    /// Notes how many attempts the first answer took.
    pub(crate) fn have_been(&mut self, made: u32) {
        self.made = made;
    }
}
