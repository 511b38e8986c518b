//! The hook that kills or stops the process at a step.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::{
    die,
    wire::{Action, Arm, Saying},
};
use crate::step::Step;

/// The longest wait for the instruction to resume, after the process was continued.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sees every step of every call, tells the harness of the first call that passes it, and kills or stops the process at the armed one.
///
/// This happens in the thread that passes the step, before that thread goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    armed: Mutex<Option<Arm>>,
    /// The steps that were passed before.
    passed: Mutex<BTreeSet<Step>>,
    resumed: Mutex<bool>,
    resuming: Condvar,
}

impl Points {
    /// Sets the action to take, or none.
    pub(super) fn arm(&self, arm: Option<Arm>) {
        *lock(&self.shared.armed) = arm;
    }

    /// Lets the thread go on that stopped this process.
    pub(super) fn resume(&self) {
        *lock(&self.shared.resumed) = true;
        self.shared.resuming.notify_all();
    }

    fn reached(&self, step: Step) {
        if lock(&self.shared.passed).insert(step) {
            Saying::Passed(step).say();
        }
        let action = {
            let mut armed = lock(&self.shared.armed);
            let Some(arm) = armed.as_mut().filter(|arm| arm.step == step) else { return };
            arm.left = arm.left.saturating_sub(1);
            if arm.left > 0 {
                return;
            }
            armed.take().map(|arm| arm.action)
        };
        let Some(action) = action else { return };
        Saying::Reached(action, step).say();
        match action {
            Action::Die => die(),
            Action::Pause => self.pause(),
        }
    }

    /// Stops the whole process. The signal may reach this thread a little later than others, so it also waits for
    /// [`resume`](Self::resume).
    fn pause(&self) {
        *lock(&self.shared.resumed) = false;
        // A process may always stop itself.
        let _ = kill_process(getpid(), Signal::STOP);
        let resumed = lock(&self.shared.resumed);
        let _ = self.shared.resuming.wait_timeout_while(resumed, PATIENCE, |resumed| !*resumed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Subscriber> Layer<S> for Points {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut name = StepName::default();
        event.record(&mut name);
        if let Some(step) = name.0.and_then(|name| name.parse().ok()) {
            self.reached(step);
        }
    }
}

/// The field `step` of an event.
#[derive(Default)]
struct StepName(Option<String>);

impl Visit for StepName {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "step" {
            self.0 = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "step" {
            self.0 = Some(format!("{value:?}"));
        }
    }
}
