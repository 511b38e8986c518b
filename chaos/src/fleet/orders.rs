//! The queue of faults for servers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::schedule::PlannedFault;

/// Faults for servers, in order. The first free server takes the first.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    more: Notify,
    queue: Mutex<OrderQueue>,
}

#[derive(Debug, Default)]
struct OrderQueue {
    closed: bool,
    orders: VecDeque<PlannedFault>,
}

impl Orders {
    /// Adds an order at the end.
    pub(crate) fn add(&self, order: PlannedFault) {
        self.queue().orders.push_back(order);
        self.more.notify_one();
    }

    /// Puts back an order that was not carried out, because its server died of something else.
    pub(super) fn put_back(&self, order: PlannedFault) {
        self.queue().orders.push_front(order);
        self.more.notify_one();
    }

    /// Takes the first order; waits until there is one.
    pub(super) async fn take(&self) -> PlannedFault {
        loop {
            let taken = {
                let mut queue = self.queue();
                if queue.closed { None } else { queue.orders.pop_front() }
            };
            match taken {
                Some(order) => return order,
                None => self.more.notified().await,
            }
        }
    }

    /// The number of orders that wait for a server.
    pub(crate) fn waiting(&self) -> usize {
        self.queue().orders.len()
    }

    /// Gives out no more orders.
    pub(super) fn close(&self) {
        self.queue().closed = true;
    }

    fn queue(&self) -> MutexGuard<'_, OrderQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
