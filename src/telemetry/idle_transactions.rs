//! Detects procedures whose transactions idle for longer than they work.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The minimum number of transactions to judge a procedure by.
const ENOUGH: u32 = 10;

/// The minimum idle time of a transaction that counts as idle.
const LONG: Duration = Duration::from_millis(50);

/// Detects whether the transactions of a procedure idle for longer than they work. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleTransactions(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct Sums {
    transactions: u32,
    /// The transactions that idled for at least [`LONG`], and for longer than they worked.
    idlers: u32,
    idle: Duration,
    working: Duration,
    is_said: bool,
}

impl IdleTransactions {
    /// Counts a transaction. Returns the averages of its idle and its working time the first time that they are to be logged.
    pub(super) fn ended(&self, idle: Duration, working: Duration) -> Option<[Duration; 2]> {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.is_said {
            return None;
        }
        sums.transactions = sums.transactions.saturating_add(1);
        sums.idlers += u32::from(idle >= LONG && idle > working);
        sums.idle += idle;
        sums.working += working;
        let [idle, working] = [sums.idle, sums.working].map(|time| time / sums.transactions);
        // A single slow transaction does not decide.
        sums.is_said = sums.transactions >= ENOUGH && sums.idlers > sums.transactions / 2 && idle > working;
        sums.is_said.then_some([idle, working])
    }
}

impl PartialEq for IdleTransactions {
    /// Returns `true`, so that two owners are equal whatever they have counted.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(of: &IdleTransactions, [idle, working]: [u64; 2]) -> Option<[u128; 2]> {
        let [idle, working] = [idle, working].map(Duration::from_millis);
        of.ended(idle, working).map(|times| times.map(|time| time.as_millis()))
    }

    #[test]
    fn says_once_with_both_averages_that_transactions_idle_for_longer_than_they_work() {
        let procedure = IdleTransactions::default();
        for _ in 1..ENOUGH {
            assert_eq!(ended(&procedure, [100, 10]), None);
        }
        assert_eq!(ended(&procedure, [110, 20]), Some([101, 11]));
        assert_eq!(ended(&procedure, [100, 10]), None);
    }

    #[test]
    fn says_nothing_of_short_times_of_one_slow_call_and_of_long_statements() {
        for times in [[40, 1], [100, 110]] {
            let procedure = IdleTransactions::default();
            assert_eq!([times; 100].map(|times| ended(&procedure, times)), [None; 100], "{times:?}");
        }
        let procedure = IdleTransactions::default();
        assert_eq!(ended(&procedure, [100_000, 1]), None);
        assert_eq!([[2, 1]; 100].map(|times| ended(&procedure, times)), [None; 100]);
    }
}
