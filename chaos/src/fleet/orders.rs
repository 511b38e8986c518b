use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::schedule::Order;

/// What is to happen to servers, in order, for whichever server is free for it first.
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
    /// Adds one at the end.
    pub(crate) fn add(&self, order: Order) {
        self.queue().orders.push_back(order);
        self.more.notify_one();
    }

    /// Puts one back that could not be carried out: its server died of something else.
    pub(super) fn put_back(&self, order: Order) {
        self.queue().orders.push_front(order);
        self.more.notify_one();
    }

    /// Takes the first, and waits until there is one.
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

    /// How many wait for a server.
    pub(crate) fn waiting(&self) -> usize {
        self.queue().orders.len()
    }

    /// Gives out none from now on.
    pub(super) fn close(&self) {
        self.queue().closed = true;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
