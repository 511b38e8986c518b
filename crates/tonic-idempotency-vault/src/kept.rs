//! Answers that are asked for once, and kept for a while.

use std::{
    collections::HashMap,
    hash::Hash,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tracing::{Dispatch, dispatcher::has_been_set, instrument::WithSubscriber as _};

use crate::no_key::NoKey;

/// How long an answer is kept, from when it was asked for. Use does not prolong it.
pub(crate) const KEPT: Duration = Duration::from_secs(5 * 60);

/// How long an answer may take: less than the layer waits for it, which is 5 seconds.
const TIME: Duration = Duration::from_secs(4);

/// Answers to several questions. Those who ask the same at one time get one answer, errors included; errors are not kept.
#[derive(Debug)]
pub(crate) struct Kept<Q, A> {
    entries: Arc<Mutex<Entries<Q, A>>>,
    most: usize,
}

type Entries<Q, A> = HashMap<Q, Entry<A>>;

#[derive(Debug)]
struct Entry<A> {
    asked: Instant,
    used: Instant,
    /// `None` until it is there.
    answer: watch::Receiver<Option<Result<A, NoKey>>>,
}

impl<Q, A> Kept<Q, A>
where
    Q: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Keeps at most this many answers: one more takes the place of the one that was not used for longest.
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: Arc::default(), most }
    }

    /// Returns the answer, and asks for it if it is not there. A task asks, so that whoever is dropped, the others get it.
    pub(crate) async fn get(
        &self,
        question: Q,
        ask: impl Future<Output = Result<A, NoKey>> + Send + 'static,
    ) -> Result<A, NoKey> {
        let mut answer = self.entry(question, ask);
        let answer = answer.wait_for(Option::is_some).await.map(|answer| answer.clone());
        answer.ok().flatten().unwrap_or_else(|| Err(NoKey::away("the task that asked it has ended")))
    }

    /// Returns the answer if it is there.
    pub(crate) fn peek(&self, question: &Q) -> Option<A> {
        let entries = lock(&self.entries);
        let entry = entries.get(question).filter(|entry| entry.is_live())?;
        entry.answer.borrow().clone()?.ok()
    }

    fn entry(
        &self,
        question: Q,
        ask: impl Future<Output = Result<A, NoKey>> + Send + 'static,
    ) -> watch::Receiver<Option<Result<A, NoKey>>> {
        let now = Instant::now();
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get_mut(&question).filter(|entry| entry.is_live()) {
            entry.used = now;
            return entry.answer.clone();
        }
        if entries.len() >= self.most && !entries.contains_key(&question) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.used).map(|(question, _)| question.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        let (tell, answer) = watch::channel(None);
        entries.insert(question.clone(), Entry { asked: now, used: now, answer: answer.clone() });
        let task = ask_and_forget(Arc::downgrade(&self.entries), question, now, tell, Box::pin(ask));
        // The client logs each refusal as an error, even that of a key that is made on first use; the layer tells of the others. Without a
        // subscriber it writes to `log`, and one that is set here would end that for the whole process.
        if has_been_set() {
            tokio::spawn(task.with_subscriber(Dispatch::none()));
        } else {
            tokio::spawn(task);
        }
        answer
    }
}

impl<A> Entry<A> {
    /// Whether the answer is there and not too old, or is being asked for.
    fn is_live(&self) -> bool {
        let is_there = self.answer.borrow().is_some();
        self.asked.elapsed() < KEPT && (is_there || self.answer.has_changed().is_ok())
    }
}

/// Asks, and removes the answer in time, so that no secret stays in the memory of a server without calls.
async fn ask_and_forget<Q: Eq + Hash, A>(
    entries: Weak<Mutex<Entries<Q, A>>>,
    question: Q,
    asked: Instant,
    tell: watch::Sender<Option<Result<A, NoKey>>>,
    ask: Pin<Box<dyn Future<Output = Result<A, NoKey>> + Send>>,
) {
    let answer = timeout(TIME, ask).await;
    let answer = answer.unwrap_or_else(|_| Err(NoKey::away(format!("no answer came within {TIME:?}"))));
    let is_kept = answer.is_ok();
    if !is_kept {
        forget(&entries, &question, asked);
    }
    tell.send_replace(Some(answer));
    drop(tell);
    if is_kept {
        sleep_until(asked + KEPT).await;
        forget(&entries, &question, asked);
    }
}

fn forget<Q: Eq + Hash, A>(entries: &Weak<Mutex<Entries<Q, A>>>, question: &Q, asked: Instant) {
    let Some(entries) = entries.upgrade() else { return };
    let mut entries = lock(&entries);
    // Another may have its place already.
    if entries.get(question).is_some_and(|entry| entry.asked == asked) {
        entries.remove(question);
    }
}

/// Ignores poisoning: no change is left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::{
        task::yield_now,
        time::{advance, sleep},
    };

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts how often it is asked; each answer takes a second.
    #[derive(Clone, Default)]
    struct Source(Arc<AtomicU32>);

    impl Source {
        async fn ask(self) -> Result<u32, NoKey> {
            let answer = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(SECOND).await;
            Ok(answer)
        }

        async fn fail(self) -> Result<u32, NoKey> {
            let number = self.ask().await?;
            Err(NoKey::away(number.to_string()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn are_asked_for_once_and_get_to_those_who_still_wait() {
        let (kept, source) = (Arc::new(Kept::new(10)), Source::default());
        let callers: Vec<_> = (0..50)
            .map(|_| {
                let (kept, source) = (Arc::clone(&kept), source.clone());
                tokio::spawn(async move { kept.get("a", source.ask()).await })
            })
            .collect();
        yield_now().await;
        // The one that asked is among them.
        callers.iter().take(10).for_each(tokio::task::JoinHandle::abort);
        for caller in callers.into_iter().skip(10) {
            assert_eq!(caller.await.expect("a caller"), Ok(1));
        }
        assert_eq!(kept.get("b", source.ask()).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn are_kept_for_five_minutes_from_when_they_were_asked_for() {
        let (kept, source) = (Kept::new(10), Source::default());
        let asked = Instant::now();
        assert_eq!(kept.get("a", source.clone().ask()).await, Ok(1));
        while asked.elapsed() + SECOND < KEPT {
            advance(SECOND).await;
            assert_eq!(kept.get("a", source.clone().ask()).await, Ok(1));
            assert_eq!(kept.peek(&"a"), Some(1));
        }
        advance(SECOND).await;
        assert_eq!(kept.peek(&"a"), None);
        assert_eq!(kept.get("a", source.ask()).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn do_not_stay_in_memory() {
        let (kept, source) = (Kept::new(10), Source::default());
        assert_eq!(kept.get("a", source.clone().ask()).await, Ok(1));
        assert!(kept.get("b", source.fail()).await.is_err());
        sleep(SECOND).await;
        assert_eq!(lock(&kept.entries).len(), 1);
        sleep(KEPT).await;
        assert!(lock(&kept.entries).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn are_no_errors_and_errors_get_to_all_who_wait() {
        let (kept, source) = (Kept::new(10), Source::default());
        let [one, other] = [(); 2].map(|()| kept.get("a", source.clone().fail()));
        let first = Err(NoKey::away("1"));
        assert_eq!(tokio::join!(one, other), (first.clone(), first));
        assert_eq!(kept.get("a", source.ask()).await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn come_in_time_or_not_at_all() {
        let kept = Kept::<_, u32>::new(10);
        let asked = Instant::now();
        let answer = timeout(2 * TIME, kept.get("a", std::future::pending())).await;
        assert!(answer.is_ok_and(|answer| answer.is_err()));
        assert_eq!(asked.elapsed(), TIME);
        let panics = async { panic!("a test's") };
        assert!(kept.get("a", panics).await.is_err());
        assert_eq!(kept.get("a", async { Ok(1) }).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn are_of_a_number_and_those_that_are_used_stay() {
        let (kept, source) = (Kept::new(2), Source::default());
        for (question, answer) in [("a", 1), ("b", 2), ("a", 1), ("c", 3), ("a", 1), ("b", 4)] {
            assert_eq!(kept.get(question, source.clone().ask()).await, Ok(answer), "{question}");
            advance(SECOND).await;
        }
        assert_eq!(lock(&kept.entries).len(), 2);
    }
}
