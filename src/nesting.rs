//! The handlers around a call: [`Nesting`].

tokio::task_local! {
    static AROUND: Nesting;
}

/// The handlers that a call is made inside of. A call that waits for something which they hold would wait for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nesting {
    /// The pools of the innermost transactions that they have; 0 for none.
    pools: [u32; 2],
}

impl Nesting {
    /// Returns the handlers around this place of the program; `None` outside of all, or in a task that a handler has spawned.
    pub(crate) fn current() -> Option<Self> {
        AROUND.try_with(|around| *around).ok()
    }

    /// Returns how many of them have a transaction of this pool; at most two are counted.
    pub(crate) fn inside(self, pool: u32) -> u8 {
        self.pools.into_iter().map(|around| u8::from(around == pool && pool != 0)).sum()
    }

    /// Returns the handlers around what a handler inside of these does, which has a transaction of this pool, or none.
    pub(crate) fn of_handler(self, pool: Option<u32>) -> Self {
        let [innermost, _] = self.pools;
        pool.filter(|&pool| pool != 0).map_or(self, |pool| Self { pools: [pool, innermost] })
    }

    /// Runs a handler inside of these, itself among them.
    pub(crate) fn around<F: Future>(self, handler: F) -> impl Future<Output = F::Output> {
        AROUND.scope(self, handler)
    }
}
