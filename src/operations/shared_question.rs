//! One question for all requests that wait for the end of the same call.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::{
    sync::{Mutex as Turns, broadcast},
    time::{Instant, timeout_at},
};

use super::question::{KnownOutcome, Question};
use crate::{
    caller::OwnerId,
    engine::shared::{pace::Pace, tracker::CallTracker, watchers::Watcher},
    key::KeyId,
    rejection::Rejection,
};

type Id = (OwnerId, KeyId);

/// The questions that are asked repeatedly, by owner and key. Only keys that a request waits for have an entry.
#[derive(Default)]
pub(super) struct SharedQuestions {
    by_key: Mutex<HashMap<Id, Weak<SharedQuestion>>>,
}

impl SharedQuestions {
    /// Joins the requests that wait for this key, until the result is dropped.
    pub(super) fn join(
        self: &Arc<Self>,
        tracker: &CallTracker,
        (owner, key): Id,
        longest_pause: Duration,
    ) -> Arc<SharedQuestion> {
        let mut by_key = self.lock();
        if let Some(shared) = by_key.get(&(owner, key)).and_then(Weak::upgrade) {
            return shared;
        }
        let pace = Pace::new(longest_pause);
        let turn = Turns::new(Turn { watcher: tracker.watch(owner, key), next: pace.next(), pace });
        let (questions, answers) = (Arc::clone(self), broadcast::Sender::new(1));
        let shared = Arc::new(SharedQuestion { questions, id: (owner, key), turn, answers });
        by_key.insert((owner, key), Arc::downgrade(&shared));
        shared
    }

    /// Ignores poisoning: no operation leaves the map half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Weak<SharedQuestion>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer, and when it was asked for.
#[derive(Clone, Debug)]
pub(super) struct SharedAnswer {
    pub(super) asked: Instant,
    pub(super) known: Arc<KnownOutcome>,
}

impl SharedAnswer {
    /// Asks the store.
    pub(super) async fn to(question: &Question<'_>) -> Result<Self, Rejection> {
        let asked = Instant::now();
        let record = question.look_up().await?;
        Ok(Self { asked, known: Arc::new(question.with_work(record).await) })
    }
}

/// The question of the requests that wait for one key. One of them asks at a time, and tells the others.
pub(super) struct SharedQuestion {
    questions: Arc<SharedQuestions>,
    id: Id,
    /// Held by the request that asks. If it goes away, the next one in the queue has the turn.
    turn: Turns<Turn>,
    answers: broadcast::Sender<SharedAnswer>,
}

impl SharedQuestion {
    /// Subscribes to the answers from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<SharedAnswer> {
        self.answers.subscribe()
    }

    /// Waits for the next answer, and asks for it if no other request does.
    ///
    /// # Cancel safety
    ///
    /// Another request asks at once.
    pub(super) async fn next(
        &self,
        question: &Question<'_>,
        answers: &mut broadcast::Receiver<SharedAnswer>,
    ) -> Result<SharedAnswer, Rejection> {
        loop {
            let mut turn = match select(pin!(answers.recv()), pin!(self.turn.lock())).await {
                Either::Left((Ok(answer), _)) => return Ok(answer),
                // There is a later one.
                Either::Left((Err(_), _)) => continue,
                Either::Right((turn, _)) => turn,
            };
            let answer = turn.ask(question).await?;
            let _ = self.answers.send(answer.clone());
            *answers = answers.resubscribe();
            return Ok(answer);
        }
    }
}

impl Drop for SharedQuestion {
    fn drop(&mut self) {
        let mut by_key = self.questions.lock();
        // A new question for this key may have been made since the last request left.
        if by_key.get(&self.id).is_some_and(|shared| shared.strong_count() == 0) {
            by_key.remove(&self.id);
        }
    }
}

/// The turn to ask.
struct Turn {
    watcher: Watcher,
    pace: Pace,
    next: Instant,
}

impl Turn {
    /// Asks when it is time for the next question, or a call with the key has ended in this process.
    async fn ask(&mut self, question: &Question<'_>) -> Result<SharedAnswer, Rejection> {
        // Returns an error when it is time.
        drop(timeout_at(self.next, self.watcher.ended()).await);
        // If this request goes away from here on, or fails, the next one asks at once.
        self.next = Instant::now();
        self.watcher.forget();
        let answer = SharedAnswer::to(question).await?;
        self.next = self.pace.next();
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn are_shared_by_those_who_wait_for_one_key_and_forgotten_with_the_last() {
        let (questions, tracker) = (Arc::new(SharedQuestions::default()), CallTracker::default());
        let id = |owner, key| (OwnerId::new(Uuid::from_u128(owner)), KeyId::new(Uuid::from_u128(key)));
        let join = |id| questions.join(&tracker, id, Duration::from_secs(1));
        let [one, two] = [join(id(1, 1)), join(id(1, 1))];
        assert!(Arc::ptr_eq(&one, &two));
        let others = [join(id(2, 1)), join(id(1, 2))];
        assert!(others.iter().all(|other| !Arc::ptr_eq(other, &one)));
        assert_eq!(questions.lock().len(), 3);
        drop((one, others));
        assert_eq!(questions.lock().len(), 1);
        drop(two);
        assert!(questions.lock().is_empty());
    }
}
