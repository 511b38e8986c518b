//! The handlers around a call: [`Nesting`].

tokio::task_local! {
    static AROUND: Nesting;
}

/// The handlers that a call is made inside of. A call that waits for something which they hold would wait for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nesting {
    /// How many of them have a transaction.
    pub(crate) transactions: u8,
}

impl Nesting {
    /// Returns the handlers around this place of the program; `None` outside of all, or in a task that a handler has spawned.
    pub(crate) fn current() -> Option<Self> {
        AROUND.try_with(|around| *around).ok()
    }

    /// Returns the handlers around what a handler inside of these does.
    pub(crate) fn of_handler(self, has_transaction: bool) -> Self {
        Self { transactions: self.transactions.saturating_add(has_transaction.into()) }
    }

    /// Runs a handler inside of these, itself among them.
    pub(crate) fn around<F: Future>(self, handler: F) -> impl Future<Output = F::Output> {
        AROUND.scope(self, handler)
    }
}
