//! The queue of faults for servers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::schedule::Order;

/// Faults for servers, in order. The first free server takes the first.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    more: Notify,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    closed: bool,
    orders: VecDeque<Order>,
}

impl Orders {
    /// Adds an order at the end.
    pub(crate) fn add(&self, order: Order) {
        self.queue().orders.push_back(order);
        self.more.notify_one();
    }

    /// Puts back an order that was not carried out, because its server died of something else.
    pub(super) fn put_back(&self, order: Order) {
        self.queue().orders.push_front(order);
        self.more.notify_one();
    }

    /// Takes the first order; waits until there is one.
    pub(super) async fn take(&self) -> Order {
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
