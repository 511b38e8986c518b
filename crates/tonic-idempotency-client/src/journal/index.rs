//! The entries of a journal in memory, without their messages: which are under way, and which are to be sent next.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};

use super::{Entry, EntryState, Lane, Principal, entry::Identity};
use crate::{OperationKey, expiry::Expiry, telemetry::JournalGauges};

/// The entries of a journal.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Mutex<Slots>,
    changed: Notify,
    gauges: JournalGauges,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) key: OperationKey,
    pub(crate) lane: Option<Lane>,
    pub(crate) principal: Option<Principal>,
    pub(crate) procedure: String,
    pub(crate) written: SystemTime,
    /// The number of times that it was sent without a final answer.
    pub(crate) failures: u32,
    /// When its last attempt was given up that may be under way.
    given_up: Option<Instant>,
    /// The time after which it is not sent any more, by the journal's setting or an answer of the server.
    expires: Expiry,
    due: Instant,
    is_expired: bool,
    /// Whether it was resumed and has failed.
    has_failed: bool,
    /// Whether it is durable.
    is_written: bool,
    /// Wakes the calls that wait for its turn in its lane. One notification for all entries would wake each for every change.
    turn: Arc<Notify>,
    /// The number of calls that are sending it.
    under_way: u32,
}

/// The result of entering a call: the state of the entry with its key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnterOutcome {
    /// It has been written before.
    Before(u64),
    /// It is not to be sent any more.
    Expired,
    /// It has to be written.
    New(u64),
    /// Another call is writing it.
    Unwritten,
}

/// The result of taking an entry to send it.
#[derive(Debug)]
pub(crate) enum TakeOutcome {
    /// An earlier entry of its lane has not ended, or another call sends it.
    Busy(Slot),
    /// Its key may no longer protect it.
    Expired(Slot),
    /// It has ended.
    Gone,
    /// The caller has to send and release it.
    ToSend(Slot),
}

/// The result of taking the entry that has been due longest.
#[derive(Debug)]
pub(crate) enum TakeDueOutcome {
    /// None is due. The next one may be at this time.
    NoneDue { next: Option<Instant> },
    /// This one.
    Taken { id: u64, taken: TakeOutcome },
}

#[derive(Debug, Default)]
struct Slots {
    last: u64,
    by_id: BTreeMap<u64, Slot>,
    by_identity: HashMap<Identity, u64>,
    /// The entries of each lane, which are sent in order.
    lanes: HashMap<Lane, BTreeSet<u64>>,
    /// The entries that may be sent, by the time at which they are due.
    waiting: BTreeSet<(Instant, u64)>,
}

impl Index {
    /// Makes the index of a store's entries, by number. `last` is the highest number in use.
    pub(crate) fn new(last: u64, stored: impl IntoIterator<Item = (u64, Slot)>) -> Self {
        let mut slots = Slots { last, ..Slots::default() };
        for (id, mut slot) in stored {
            slot.is_written = true;
            slots.add(id, slot);
            slots.consider(id);
        }
        let index = Self { slots: Mutex::new(slots), changed: Notify::new(), gauges: JournalGauges::default() };
        index.change(|_| ());
        index
    }

    /// Ends with the next change, counted from its first poll or `enable`.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Adds an entry that is going to be written, unless there is one with its key. The caller sends it.
    pub(crate) fn enter(&self, slot: Slot) -> EnterOutcome {
        let mut slots = self.slots();
        let Some(id) = slots.by_identity.get(&slot.identity()).copied() else {
            let id = slots.last + 1;
            slots.add(id, Slot { under_way: 1, given_up: None, ..slot });
            self.show(&slots);
            return EnterOutcome::New(id);
        };
        let Some(known) = slots.by_id.get_mut(&id) else { return EnterOutcome::Unwritten };
        if known.is_expired || known.expires.has_come() {
            return EnterOutcome::Expired;
        }
        let is_being_noted = known.has_failed && known.under_way > 0;
        if !known.is_written || is_being_noted {
            return EnterOutcome::Unwritten;
        }
        known.under_way += 1;
        let waiting = (known.due, id);
        slots.waiting.remove(&waiting);
        EnterOutcome::Before(id)
    }

    /// Notes that an entry is durable.
    pub(crate) fn written(&self, id: u64) {
        self.change(|slots| {
            if let Some(slot) = slots.by_id.get_mut(&id) {
                slot.is_written = true;
            }
            slots.consider(id);
        });
    }

    /// Notes that an entry has failed, so that it is not sent again by itself, if no other call [sends it](Self::is_alone). Returns whether
    /// that is so.
    pub(crate) fn fail(&self, id: u64, failures: u32) -> bool {
        self.change(|slots| {
            let Some(slot) = slots.by_id.get_mut(&id).filter(|slot| slot.is_alone(failures)) else { return false };
            slot.has_failed = true;
            let slot = slot.clone();
            slots.leave_lane(id, &slot);
            true
        })
    }

    /// Lets an entry that has failed be sent again, in its lane's order.
    pub(crate) fn revive(&self, id: u64) {
        self.change(|slots| {
            let Some(slot) = slots.by_id.get_mut(&id).filter(|slot| slot.has_failed) else { return };
            slot.has_failed = false;
            slot.due = Instant::now();
            let slot = slot.clone();
            slots.join_lane(id, &slot);
            slots.consider(id);
        });
    }

    /// Removes an entry. Returns whether it was there.
    pub(crate) fn remove(&self, id: u64) -> bool {
        self.change(|slots| slots.remove(id))
    }

    /// Removes an entry if no other call [sends it](Self::is_alone). Returns whether that is so.
    pub(crate) fn remove_alone(&self, id: u64, failures: u32) -> bool {
        self.change(|slots| slots.is_alone(id, failures) && slots.remove(id))
    }

    /// Notes that an entry is not sent any more, when it may be sent again, and when an attempt was given up that may be under way.
    pub(crate) fn release(&self, id: u64, due: Instant, given_up: Option<Instant>) {
        self.change(|slots| {
            if let Some(slot) = slots.by_id.get_mut(&id) {
                slot.under_way = slot.under_way.saturating_sub(1);
                slot.failures = slot.failures.saturating_add(1);
                slot.given_up = slot.given_up.max(given_up);
                slot.due = due;
            }
            slots.consider(id);
        });
    }

    /// Notes when the key of an entry ceases to protect.
    pub(crate) fn expire_by(&self, id: u64, expiry: Expiry) {
        if let Some(slot) = self.slots().by_id.get_mut(&id) {
            slot.expires = slot.expires.min(expiry);
        }
    }

    /// Returns when an entry is not sent any more; `None` if it has ended.
    pub(crate) fn expires(&self, id: u64) -> Option<Expiry> {
        self.slots().by_id.get(&id).map(|slot| slot.expires)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.slots().by_id.contains_key(&id)
    }

    /// Returns how often an entry was sent without a final answer.
    pub(crate) fn failures(&self, id: u64) -> u32 {
        self.slots().by_id.get(&id).map_or(0, |slot| slot.failures)
    }

    /// Returns when the last attempt of an entry was given up that may be under way. Its caller sends it, and perhaps another call.
    pub(crate) fn given_up(&self, id: u64) -> Option<Instant> {
        let slots = self.slots();
        let slot = slots.by_id.get(&id)?;
        if slot.under_way > 1 { Some(Instant::now()) } else { slot.given_up }
    }

    /// Returns whether only its caller has sent an entry since it had been sent as often as that.
    pub(crate) fn is_alone(&self, id: u64, failures: u32) -> bool {
        self.slots().is_alone(id, failures)
    }

    /// Waits until no earlier entry of its lane is to be sent before this one.
    pub(crate) async fn turn(&self, id: u64) {
        loop {
            let Some(turn) = self.slots().by_id.get(&id).map(|slot| Arc::clone(&slot.turn)) else { return };
            let mut has_come = pin!(turn.notified());
            has_come.as_mut().enable();
            if self.has_turn(id) {
                return;
            }
            has_come.await;
        }
    }

    fn has_turn(&self, id: u64) -> bool {
        self.slots().has_turn(id)
    }

    /// Takes this entry to send it.
    pub(crate) fn take(&self, id: u64) -> TakeOutcome {
        self.slots().take(id)
    }

    /// Takes the entry that has been due longest.
    pub(crate) fn take_due(&self) -> TakeDueOutcome {
        let mut slots = self.slots();
        match slots.waiting.first().copied() {
            Some((due, id)) if due <= Instant::now() => TakeDueOutcome::Taken { id, taken: slots.take(id) },
            next => TakeDueOutcome::NoneDue { next: next.map(|(due, _)| due) },
        }
    }

    /// Returns the entries that are to be resumed and that no call is sending, grouped by lane, in the order in which they were written.
    pub(crate) fn by_lane(&self) -> Vec<Vec<u64>> {
        let slots = self.slots();
        let mut groups: Vec<Vec<u64>> = Vec::new();
        let mut lanes: HashMap<&Lane, usize> = HashMap::new();
        for (id, slot) in
            slots.by_id.iter().filter(|(_, slot)| slot.is_written && !slot.has_failed && slot.under_way == 0)
        {
            match slot.lane.as_ref().and_then(|lane| lanes.get(lane)) {
                Some(group) => groups[*group].push(*id),
                None => {
                    lanes.extend(slot.lane.as_ref().map(|lane| (lane, groups.len())));
                    groups.push(vec![*id]);
                }
            }
        }
        groups
    }

    /// The numbers and the states of all entries.
    pub(crate) fn states(&self) -> Vec<(u64, EntryState)> {
        let slots = self.slots();
        let written = slots.by_id.iter().filter(|(_, slot)| slot.is_written);
        written.map(|(id, slot)| (*id, slot.state())).collect()
    }

    /// The numbers of the entries with this key, of any principal.
    pub(crate) fn with_key(&self, key: &OperationKey) -> Vec<u64> {
        self.slots().by_id.iter().filter(|(_, slot)| slot.key == *key).map(|(id, _)| *id).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Slots) -> T) -> T {
        let changed = {
            let mut slots = self.slots();
            let changed = change(&mut slots);
            self.show(&slots);
            changed
        };
        self.changed.notify_waiters();
        changed
    }

    fn show(&self, slots: &Slots) {
        self.gauges.set(slots.by_id.len(), slots.by_id.first_key_value().map(|(_, slot)| slot.written));
    }
}

impl Slot {
    /// The slot of an entry that may be sent until this time.
    pub(crate) fn of(entry: &Entry, expires: Expiry) -> Self {
        Self {
            key: entry.key.clone(),
            lane: entry.lane.clone(),
            principal: entry.principal.clone(),
            procedure: entry.procedure.clone(),
            written: entry.written,
            failures: 0,
            // The process that has written it may have died just now.
            given_up: Some(Instant::now()),
            expires,
            due: Instant::now(),
            is_expired: false,
            has_failed: entry.error.is_some(),
            is_written: false,
            turn: Arc::default(),
            under_way: 0,
        }
    }

    fn is_alone(&self, failures: u32) -> bool {
        self.under_way == 1 && self.failures == failures
    }

    fn identity(&self) -> Identity {
        (self.principal.clone(), self.key.clone())
    }

    fn state(&self) -> EntryState {
        match self.under_way {
            0 if self.has_failed => EntryState::Failed,
            0 if self.is_expired || self.expires.has_come() => EntryState::Expired,
            0 => EntryState::Waiting,
            _ => EntryState::UnderWay,
        }
    }
}

impl Slots {
    fn add(&mut self, id: u64, slot: Slot) {
        self.last = self.last.max(id);
        self.by_identity.insert(slot.identity(), id);
        self.join_lane(id, &slot);
        self.by_id.insert(id, slot);
    }

    fn join_lane(&mut self, id: u64, slot: &Slot) {
        if let (Some(lane), false) = (&slot.lane, slot.has_failed) {
            self.lanes.entry(lane.clone()).or_default().insert(id);
        }
    }

    fn is_alone(&self, id: u64, failures: u32) -> bool {
        self.by_id.get(&id).is_none_or(|slot| slot.is_alone(failures))
    }

    fn has_turn(&self, id: u64) -> bool {
        let lane = self.by_id.get(&id).and_then(|slot| self.lanes.get(slot.lane.as_ref()?));
        lane.and_then(BTreeSet::first).is_none_or(|first| *first >= id)
    }

    /// Adds an entry to those that wait to be sent, if it may be sent.
    fn consider(&mut self, id: u64) {
        let Some(slot) = self.by_id.get(&id) else { return };
        if slot.is_written && slot.under_way == 0 && !slot.is_expired && !slot.has_failed && self.has_turn(id) {
            self.waiting.insert((slot.due, id));
        }
    }

    fn take(&mut self, id: u64) -> TakeOutcome {
        let has_turn = self.has_turn(id);
        let Some(slot) = self.by_id.get_mut(&id) else { return TakeOutcome::Gone };
        if slot.under_way > 0 || !slot.is_written || slot.has_failed {
            return TakeOutcome::Busy(slot.clone());
        }
        if slot.is_expired || slot.expires.has_come() {
            slot.is_expired = true;
            let slot = slot.clone();
            self.leave_lane(id, &slot);
            return TakeOutcome::Expired(slot);
        }
        if !has_turn {
            // It is considered again when its turn comes.
            let slot = slot.clone();
            self.waiting.remove(&(slot.due, id));
            return TakeOutcome::Busy(slot);
        }
        slot.under_way = 1;
        let slot = slot.clone();
        self.waiting.remove(&(slot.due, id));
        TakeOutcome::ToSend(slot)
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(slot) = self.by_id.remove(&id) else { return false };
        self.by_identity.remove(&slot.identity());
        self.leave_lane(id, &slot);
        slot.turn.notify_waiters();
        true
    }

    /// Lets the next entry of its lane be sent.
    fn leave_lane(&mut self, id: u64, slot: &Slot) {
        self.waiting.remove(&(slot.due, id));
        let Some(lane) = &slot.lane else { return };
        let Some(ids) = self.lanes.get_mut(lane) else { return };
        ids.remove(&id);
        match ids.first().copied() {
            Some(next) => {
                self.consider(next);
                if let Some(slot) = self.by_id.get(&next) {
                    slot.turn.notify_waiters();
                }
            }
            None => drop(self.lanes.remove(lane)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slot(key: &str, lane: Option<&str>) -> Slot {
        Slot {
            key: OperationKey::from_text(key).expect("a key"),
            lane: lane.map(Lane::new),
            procedure: "/shop.v1.Orders/Create".to_owned(),
            principal: None,
            written: SystemTime::now(),
            failures: 0,
            given_up: None,
            expires: Expiry::after(Duration::from_secs(60)),
            due: Instant::now(),
            is_expired: false,
            has_failed: false,
            is_written: false,
            turn: Arc::default(),
            under_way: 0,
        }
    }

    /// Takes all entries that are due.
    fn due(index: &Index) -> Vec<u64> {
        std::iter::from_fn(|| match index.take_due() {
            TakeDueOutcome::NoneDue { .. } => None,
            TakeDueOutcome::Taken { id, .. } => Some(id),
        })
        .collect()
    }

    #[test]
    fn has_entries_of_one_lane_one_after_the_other() {
        let lanes = [Some("a"), Some("b"), Some("a"), None, Some("a"), None];
        let index = Index::new(
            0,
            (1..).zip(lanes.map(|lane| slot("k", lane))).map(|(id, mut slot)| {
                slot.key = OperationKey::from_text(&format!("k-{id}")).expect("a key");
                (id, slot)
            }),
        );
        assert_eq!(index.by_lane(), [vec![1, 3, 5], vec![2], vec![4], vec![6]]);
        assert_eq!(due(&index), [1, 2, 4, 6]);
        assert!(!index.has_turn(3));
        index.release(1, Instant::now(), None);
        assert_eq!(due(&index), [1]);
        assert!(index.remove(1) && index.has_turn(3));
        assert_eq!(due(&index), [3]);
    }

    #[test]
    fn does_not_give_out_an_entry_that_a_call_sends_or_that_is_not_durable() {
        let index = Index::new(0, []);
        assert_eq!(index.enter(slot("k", None)), EnterOutcome::New(1));
        assert_eq!(index.enter(slot("k", None)), EnterOutcome::Unwritten);
        index.release(1, Instant::now(), None);
        assert!(due(&index).is_empty());
        index.written(1);
        assert_eq!(index.enter(slot("k", None)), EnterOutcome::Before(1));
        assert!(due(&index).is_empty());
        assert!(matches!(index.take(1), TakeOutcome::Busy(_)));
        index.release(1, Instant::now(), None);
        assert_eq!(due(&index), [1]);
    }

    #[test]
    fn keeps_an_entry_that_has_failed_and_lets_its_lane_go_on() {
        let in_lane = |key| slot(key, Some("a"));
        let index = Index::new(0, [(1, in_lane("k-1")), (2, in_lane("k-2"))]);
        assert!(matches!(index.take_due(), TakeDueOutcome::Taken { id: 1, taken: TakeOutcome::ToSend(_) }));
        assert!(index.fail(1, 0));
        index.release(1, Instant::now(), None);
        assert_eq!(index.states(), [(1, EntryState::Failed), (2, EntryState::Waiting)]);
        assert_eq!((due(&index), index.by_lane()), (vec![2], vec![]));
        index.release(2, Instant::now(), None);
        index.revive(1);
        assert_eq!((index.by_lane(), index.has_turn(2)), (vec![vec![1, 2]], false));
        assert_eq!(due(&index), [2, 1], "the second is found to be behind");
        assert!(due(&index).is_empty());
    }

    #[test]
    fn gives_out_an_expired_entry_once_and_lets_its_lane_go_on() {
        let mut old = slot("old", Some("a"));
        old.expires = Expiry::after(Duration::ZERO);
        let index = Index::new(0, [(7, old.clone()), (8, slot("new", Some("a")))]);
        assert!(matches!(index.take_due(), TakeDueOutcome::Taken { id: 7, taken: TakeOutcome::Expired(_) }));
        assert!(matches!(index.take_due(), TakeDueOutcome::Taken { id: 8, taken: TakeOutcome::ToSend(_) }));
        assert!(matches!(index.take_due(), TakeDueOutcome::NoneDue { next: None }));
        assert_eq!(index.enter(old), EnterOutcome::Expired);
        assert_eq!(index.states(), [(7, EntryState::Expired), (8, EntryState::UnderWay)]);
    }
}
