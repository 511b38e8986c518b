//! The client's end of a session: [`Wire`].

use std::{collections::VecDeque, sync::Arc};

use tokio::{
    select,
    sync::{mpsc, oneshot},
};
use tonic_idempotency::store::driver::DriverError;

use super::{
    session::{Answer, Request},
    state::Ending,
};
use crate::world::Signal;

/// A connection to a session.
pub(super) struct Wire {
    pub(super) session: u64,
    pub(super) requests: mpsc::UnboundedSender<Request>,
    /// The answers that were not received yet.
    pub(super) unanswered: VecDeque<oneshot::Receiver<Answer>>,
    ended: Arc<Signal<Option<Ending>>>,
    /// The beginning of the transaction, as the server has told it.
    pub(super) begun: Option<f64>,
    pub(super) is_in_conflict: bool,
    pub(super) used: std::time::Instant,
}

impl Wire {
    pub(super) fn new(
        session: u64,
        requests: mpsc::UnboundedSender<Request>,
        ended: Arc<Signal<Option<Ending>>>,
    ) -> Self {
        let (begun, used) = (None, std::time::Instant::now());
        Self { session, requests, unanswered: VecDeque::new(), ended, begun, is_in_conflict: false, used }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns whether all is answered.
    pub(super) fn is_quiet(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Waits for the first of the answers.
    pub(super) async fn receive(&mut self) -> Result<Answer, DriverError> {
        let Some(answer) = self.unanswered.front_mut() else { return Ok(Ok(Vec::new())) };
        let answer = select! {
            biased;
            answer = answer => answer.ok(),
            _ = self.ended.until(|ended| ended.is_some()) => None,
        };
        self.unanswered.pop_front();
        match answer {
            Some(answer) => Ok(answer),
            // Also if the session was dropped with what was sent: it says so soon.
            None => Err(match self.ended.until(|ended| ended.is_some()).await {
                Some(Ending::Told(error)) => error.into(),
                _ => DriverError::lost("the connection was cut"),
            }),
        }
    }
}
