//! The hook that kills or stops the process at a step.

use std::{
    collections::BTreeSet,
    process,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};

use super::wire::{Action, Arm, Saying};
use crate::step::Step;

/// The longest wait for the instruction to resume, after the process was continued.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells the harness of the first call that passes each step, and kills or stops the process at the armed one.
///
/// This happens in the thread that passes the step, before that thread goes on.
#[derive(Clone, Debug, Default)]
pub(super) struct Points(Arc<PointState>);

#[derive(Debug, Default)]
struct PointState {
    armed: Mutex<Option<Arm>>,
    /// The steps that were passed before.
    passed: Mutex<BTreeSet<Step>>,
    resumed: Mutex<bool>,
    resuming: Condvar,
}

impl Points {
    /// Sets the action to take, or none.
    pub(super) fn arm(&self, arm: Option<Arm>) {
        *lock(&self.0.armed) = arm;
    }

    /// Lets the thread go on that stopped this process.
    pub(super) fn resume(&self) {
        *lock(&self.0.resumed) = true;
        self.0.resuming.notify_all();
    }

    pub(super) fn reached(&self, step: Step) {
        if lock(&self.0.passed).insert(step) {
            Saying::Passed(step).say();
        }
        let action = {
            let mut armed = lock(&self.0.armed);
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
        *lock(&self.0.resumed) = false;
        // A process may always stop itself.
        let _ = kill_process(getpid(), Signal::STOP);
        let resumed = lock(&self.0.resumed);
        let _ = self.0.resuming.wait_timeout_while(resumed, PATIENCE, |resumed| !*resumed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process at this very point, as `kill -9` does.
pub(crate) fn die() -> ! {
    // A process may always kill itself.
    let _ = kill_process(getpid(), Signal::KILL);
    process::abort()
}
