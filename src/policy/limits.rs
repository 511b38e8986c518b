//! The limits of what a server holds for its callers, each in one place.

/// The limits of one server, for [`limits`](crate::layer::IdempotencyLayerBuilder::limits): what it may hold at a time for all of its
/// callers, and for each.
///
/// A call with a key goes on when its client disconnects, so that no limit of the server or of HTTP/2 counts it any more. A caller counts
/// in each scope as a caller of its own; calls without a user count as those of one. A call beyond a limit of the server is refused with
/// `UNAVAILABLE`, one beyond a limit of its caller with `RESOURCE_EXHAUSTED`; both have the reason
/// [`Overloaded`](crate::rejection::Reason::Overloaded), name the `limit` and whose it is (`of`), and may be sent again with the same key.
///
/// ```
/// use tonic_idempotency::policy::{Limit, Limits};
///
/// let limits = Limits { in_flight: Limit::new(512, 64), records: Some(100_000), ..Limits::default() };
/// # assert_eq!(limits.waiting, Limits::default().waiting);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with `..Limits::default()`")]
pub struct Limits {
    /// Calls in flight: calls with a key, or without one to a transactional procedure, from the arrival of their heads until their
    /// outcomes are settled; if the procedure has a [key field](crate::policy::ProcedureBuilder::key_field), all calls while their
    /// messages are read. A [waiting](Self::waiting) call is not in flight, nor is an outcome that is recorded after its answer. Further calls
    /// are refused before their messages are read, retries and replays among them. At least 1 each. Defaults to 1,024, and 128 per caller.
    pub in_flight: Limit,
    /// Records of a caller that have not expired, over all servers. A further call is refused with
    /// [`TooManyRecords`](crate::rejection::Reason::TooManyRecords) before its handler runs; a retry of a call that is recorded or still runs is
    /// answered as always. Only the store in PostgreSQL has this limit: a layer on another one cannot be built with it. It needs `migrations::limits` and an index on `(user_id, expires)`,
    /// and may refuse a caller slightly early: servers take allowances of at most 20 seconds. At least 1. Defaults to no limit. All
    /// callers together have no limit.
    pub records: Option<u64>,
    /// Transactions of handlers at once. No more than the store's pool allows in any case: without a pool of their own, transactions leave a
    /// quarter of its connections, at least one, to the rest; one caller has at most all but one, and half while others wait. A call
    /// waits for its turn for at most the store's `timeout`. At least 1 each. Defaults to what the pool allows.
    pub transactions: Limit,
    /// Outcomes that wait to be recorded because the store did not take them at once. While this many wait, reserved calls are refused.
    /// Outcomes of calls whose claims were not answered, which may not hold their keys, have half of the room; further ones are given
    /// up, with an error in the log. At least 1 each. Defaults to 10,000, also per caller. Their responses have 64 MiB together; a response
    /// beyond that is not stored, and a retry gets [`NotStored`](crate::rejection::Reason::NotStored).
    pub unrecorded: Limit,
    /// Calls that wait for a running call with their key ([`InProgressPolicy::Wait`](crate::policy::InProgressPolicy::Wait)), and
    /// requests of `WaitOperation`; 0 for none. A waiting call holds its request, but no connection. Defaults to 4,096, and 256 per
    /// caller. The requests of all together have at most 64 MiB.
    pub waiting: Limit,
}

/// A limit of a server: of all of its callers together, and of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with `..Limits::default()`")]
pub struct Limit {
    /// The most of all callers.
    pub server: usize,
    /// The most of one caller.
    pub caller: usize,
}

impl Limit {
    /// No limit.
    pub const NONE: Self = Self::new(usize::MAX, usize::MAX);

    /// A limit of all callers together, and of each.
    pub const fn new(server: usize, caller: usize) -> Self {
        Self { server, caller }
    }

    /// The limit, which lets at least one through.
    pub(crate) fn at_least_one(self) -> Self {
        Self { server: self.server.max(1), caller: self.caller.max(1) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: Limit::new(1024, 128),
            records: None,
            transactions: Limit::NONE,
            unrecorded: Limit::new(10_000, 10_000),
            waiting: Limit::new(4096, 256),
        }
    }
}
