//! The operations of clients, and what the handler does with them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tonic_idempotency::{Caller, KeyId, Scope, UserId, policy::ExpiredKeyPolicy};
use uuid::{Builder, Uuid};

use super::{LENGTH, Settings};
use crate::world::{BEGINNING, Random};

/// The longest response that is stored, if there is a limit, in bytes.
pub const LONGEST_RESPONSE: usize = 150;

/// How long a transaction of the last crowd takes: less than it may be idle.
const LAST_WORK: Duration = Duration::from_secs(1);

/// One operation that a client wants to happen once.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Operation {
    /// Its number in the plan.
    pub number: usize,
    /// The number in its message. Only another user's operation may have the same, under the same key.
    pub message: usize,
    /// How its first request arrives; the others arrive at once.
    pub body: Pace,
    /// The server to which its first request goes; the others go to any.
    pub server: usize,
    /// The user; `None` for a caller who is not authenticated.
    pub user: Option<Uuid>,
    /// The tenant in which the user calls. A user of two tenants is two users.
    pub scope: u8,
    /// The key. Another user's operation may have the same, and a hostile client's another operation of this user.
    pub key: Uuid,
    /// The key as it is stored.
    pub stored: Uuid,
    /// Whether it is sent with its key; without one, once.
    pub has_key: bool,
    /// The procedure.
    pub procedure: Procedure,
    /// Whether it is delivered, as the message of a queue is, to a consumer that runs it; otherwise it is called.
    pub is_delivered: bool,
    /// The call that a server with the Go interceptor gets, too.
    pub go: Option<GoCall>,
    /// When it is first sent.
    pub begins: Duration,
    /// How many requests are sent at once.
    pub duplicates: usize,
    /// How long a client waits for each answer before it hangs up.
    pub patience: Duration,
    /// Whether the server is told a deadline, by `grpc-timeout`.
    pub tells_patience: bool,
    /// The part of its patience that it tells.
    pub told: f64,
    /// How many attempts there are before the last ones, after all faults.
    pub attempts: usize,
    /// The longest pause between attempts.
    pub pause: Duration,
    /// The machine of its client, if that has a journal: the number of the first operation there. All of one machine share its journal.
    pub machine: usize,
    /// Whether it is in the lane of its machine's journal, whose entries are sent in their order.
    pub is_in_lane: bool,
    /// Whether it is of the last crowd, which comes when all is over. It is sent once, with its duplicates.
    pub is_last: bool,
    /// The asynchronous work behind what it creates, if its procedure creates something. Without it, that has no status.
    pub job: Option<Job>,
    /// Each run of the handler does one of these, in turn, and then the last one.
    pub behaviours: Vec<Behaviour>,
}

/// The asynchronous work behind what an operation creates.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Job {
    /// How long it takes.
    pub takes: Duration,
    /// Whether it fails at first, and then takes as long again.
    pub is_tried_again: bool,
    /// Whether it succeeds in the end.
    pub succeeds: bool,
}

/// A call that a server with the Go interceptor gets.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct GoCall {
    /// When it arrives.
    pub at: Duration,
    /// How long its handler takes.
    pub takes: Duration,
    /// Whether its handler has its effect, rather than failing before.
    pub succeeds: bool,
}

/// The speed of a request's message.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Pace {
    /// It arrives with the head.
    AtOnce,
    /// It stops in the middle for this time.
    Stops(Duration),
    /// It stops in the middle, and its client is never heard of again.
    Never,
}

/// The procedures of the service.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Procedure {
    /// Reserved mode, with an effect in another system.
    Send,
    /// Reserved mode, with an effect on the server of the records: reservations do not wait for the disk.
    Insert,
    /// Transactional mode.
    Enter,
}

impl Procedure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Send, Self::Insert, Self::Enter];

    /// The name of the operation that does the same.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Send => "ledger.v1/Send",
            Self::Insert => "ledger.v1/Insert",
            Self::Enter => "ledger.v1/Enter",
        }
    }

    /// Its path.
    pub fn path(self) -> String {
        format!("/ledger.v1.Ledger/{self:?}")
    }

    /// Returns whether it creates something, behind which there may be asynchronous work.
    pub fn creates(self) -> bool {
        self != Self::Send
    }

    /// Returns whether it is in reserved mode.
    pub fn is_reserved(self) -> bool {
        self != Self::Enter
    }
}

/// One run of the handler.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Behaviour {
    /// The work before the effect.
    pub before: Duration,
    /// The work after the effect.
    pub after: Duration,
    /// How it ends.
    pub end: End,
    /// In a transaction: whether it writes before it fails.
    pub writes_first: bool,
    /// In a transaction: whether it answers as if its statement had not failed.
    pub ignores_failure: bool,
    /// Outside of one: whether it stops working once it hears that its lease is lost.
    pub heeds_lease: bool,
    /// With an effect on the server of the records: whether its connection is made before it works. It then gives up if that is lost; otherwise
    /// it may outlive a crash of the server.
    pub connects_first: bool,
    /// Whether it panics rather than returning an error, after the effect.
    pub panics: bool,
    /// In a transaction: whether its client goes in the moment in which it ends.
    pub is_left: bool,
    /// Whether it never ends: it stops before its effect or, if it writes first, after it.
    pub hangs: bool,
}

/// The end of a run of the handler.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum End {
    /// With a response, after the effect.
    Response,
    /// With an error that may be sent again, before any effect.
    Error,
    /// With an error that may be final, before any effect.
    FinalError,
    /// With a panic, before any effect.
    Panic,
    /// With an error or a panic after the effect, which it told the layer of. (In a transaction nothing is left of it.)
    ErrorAfterEffect,
}

impl Operation {
    pub(super) fn draw_all(random: &mut Random, count: usize, settings: &Settings) -> Vec<Self> {
        let users: Vec<_> = (0..random.number(1..=6)).map(|_| Uuid::from_bytes(random.bytes())).collect();
        let mut all: Vec<Self> = Vec::with_capacity(count);
        for number in 0..count {
            // Of its own, so that an operation that is left out changes no other.
            let mut random = random.fork();
            let mut operation = Self::draw(number, &mut random, &users, settings);
            if let Some(other) = all.len().checked_sub(1).filter(|_| random.once_in(12)) {
                let other = &all[usize::try_from(random.number(0..=other as u64)).unwrap_or_default()];
                // Either another user with the same key, or the same user: a hostile client.
                (operation.key, operation.stored) = (other.key, other.key);
                operation.begins = other.begins + random.duration(Duration::from_millis(1)..=Duration::from_secs(20));
                if operation.owner() != other.owner() && other.message == other.number && random.once_in(2) {
                    (operation.message, operation.procedure) = (other.message, other.procedure);
                } else if operation.owner() == other.owner()
                    && operation.procedure != other.procedure
                    && random.once_in(2)
                {
                    // The same message, to another procedure.
                    operation.message = other.message;
                }
            }
            all.push(operation);
        }
        // The client's layer always sends one. If two operations had one message, nothing would tell whose a run is.
        let shared: Vec<_> = all.iter().filter(|it| it.message != it.number).map(|it| it.message).collect();
        for operation in all.iter_mut().filter(|it| it.user.is_some() && !settings.client_layer) {
            if random.once_in(20) && !shared.contains(&operation.number) {
                operation.has_key = false;
                // The layer reads no message without a key in reserved mode, so nothing ends one that does not come.
                (operation.attempts, operation.duplicates, operation.body) = (1, 0, Pace::AtOnce);
                operation.message = operation.number;
                operation.key = Uuid::from_bytes(random.bytes());
                operation.stored = operation.key;
            }
        }
        // Of one seed in three, half of the operations are delivered; one seed in four has a Go server.
        let (mut deliveries, mut of_go) = (random.fork(), random.fork());
        let has_deliveries = deliveries.once_in(3) && !settings.client_layer;
        for operation in
            all.iter_mut().filter(|operation| has_deliveries && operation.user.is_some() && operation.has_key)
        {
            if deliveries.once_in(2) {
                // A message is there as a whole, and does not tell how long it may take.
                operation.is_delivered = true;
                (operation.body, operation.tells_patience) = (Pace::AtOnce, false);
                let made = KeyId::of_operation(operation.procedure.operation(), &operation.key.to_string());
                operation.stored = *made.as_uuid();
            }
        }
        if settings.client_journal {
            Self::share_machines(&mut all, random);
        }
        let has_go = of_go.once_in(4);
        for operation in all.iter_mut().filter(|it| has_go && it.user.is_some() && it.has_key && !it.is_delivered) {
            operation.go = of_go.once_in(3).then(|| GoCall::draw(&mut of_go, operation.begins));
        }
        all
    }

    /// Draws which operations share a machine. Those with the same key do not: they would be one entry.
    fn share_machines(all: &mut [Self], random: &mut Random) {
        let has_lanes = random.once_in(3);
        for place in 1..all.len() {
            let (before, rest) = all.split_at_mut(place);
            let (machine, operation) = (before[place - 1].machine, &mut rest[0]);
            let mut members = before.iter().filter(|it| it.machine == machine);
            if !random.once_in(3) && members.all(|it| it.key != operation.key) {
                let first = &before[machine];
                (operation.machine, operation.patience) = (machine, first.patience);
                operation.is_in_lane = has_lanes && random.once_in(2);
            }
        }
    }

    fn draw(number: usize, random: &mut Random, users: &[Uuid], settings: &Settings) -> Self {
        let milliseconds =
            |random: &mut Random, from, to| random.duration(Duration::from_millis(from)..=Duration::from_millis(to));
        let behaviours = (0..4).map(|_| Behaviour {
            before: match () {
                () if settings.has_slow_handlers && random.once_in(6) => {
                    settings.policies.lease.mul_f64(random.number(50..=300) as f64 / 100.0)
                }
                () if random.once_in(20) => milliseconds(random, 1, 30_000),
                () => milliseconds(random, 1, 200),
            },
            after: milliseconds(random, 1, 100),
            end: match random.number(0..=19) {
                0 | 1 => End::Error,
                2 => End::FinalError,
                3 => End::Panic,
                4 => End::ErrorAfterEffect,
                _ => End::Response,
            },
            writes_first: random.once_in(2),
            ignores_failure: random.once_in(4),
            heeds_lease: random.once_in(2),
            connects_first: random.once_in(2),
            panics: random.once_in(2),
            is_left: random.once_in(8),
            hangs: settings.has_handler_timeout() && random.once_in(6),
        });
        let mut behaviours: Vec<_> = behaviours.collect();
        // So that an operation ends.
        behaviours.push(Behaviour {
            before: Duration::from_millis(5),
            after: Duration::from_millis(5),
            end: End::Response,
            writes_first: false,
            ignores_failure: false,
            heeds_lease: false,
            connects_first: true,
            panics: false,
            is_left: false,
            hangs: false,
        });
        let begins = match settings.rush.filter(|_| settings.is_burst || random.once_in(2)) {
            Some(rush) => rush + random.duration(Duration::from_micros(10)..=settings.rush_lasts),
            None => LENGTH.mul_f64(random.number(0..=1_000) as f64 / 1_000.0),
        };
        let key = match settings.policies.expired_keys {
            ExpiredKeyPolicy::Refuse => version_7(begins, random),
            _ => Uuid::from_bytes(random.bytes()),
        };
        Self {
            number,
            message: number,
            body: match random.number(0..=39) {
                0 | 1 => Pace::Stops(milliseconds(random, 1, 10_000)),
                2 => Pace::Never,
                _ => Pace::AtOnce,
            },
            server: match settings.is_burst {
                true => 0,
                false => usize::try_from(random.number(0..=settings.servers as u64 - 1)).unwrap_or_default(),
            },
            user: (!random.once_in(40)).then_some(*random.one_of(users)),
            scope: u8::from(random.once_in(4)),
            key,
            stored: key,
            has_key: true,
            procedure: *random.one_of(&[
                Procedure::Send,
                Procedure::Send,
                Procedure::Insert,
                Procedure::Enter,
                Procedure::Enter,
            ]),
            is_delivered: false,
            go: None,
            begins,
            duplicates: match random.number(0..=39) {
                0 => 10,
                1..=5 => 2,
                6..=10 => 1,
                _ => 0,
            },
            patience: milliseconds(random, 20, 20_000),
            tells_patience: random.once_in(2),
            told: if random.once_in(2) { 1.0 } else { random.magnitude(0.05..=1.0) },
            attempts: usize::try_from(random.number(1..=5)).unwrap_or(1),
            pause: milliseconds(random, 1, 5_000),
            machine: number,
            is_in_lane: false,
            is_last: false,
            job: (!random.once_in(8)).then(|| Job {
                takes: milliseconds(random, 1, 40_000),
                is_tried_again: random.once_in(3),
                succeeds: !random.once_in(3),
            }),
            behaviours,
        }
    }

    /// Draws the last crowd of each server: one more than it has transactions for, and calls in reserved mode, of which one has duplicates that
    /// may wait for it. Each is another user's.
    pub(super) fn draw_last_crowd(random: &mut Random, all: &mut Vec<Self>, settings: &Settings) {
        for server in 0..settings.servers {
            for place in 0..settings.transactions() + 3 {
                let user = Uuid::from_bytes(random.bytes());
                let mut operation = Self::draw(all.len(), random, &[user], settings);
                let (procedure, before) = match place {
                    0 => (Procedure::Send, LAST_WORK / 5),
                    1 => (Procedure::Insert, LAST_WORK / 5),
                    _ => (Procedure::Enter, LAST_WORK),
                };
                operation.user = Some(user);
                (operation.server, operation.procedure, operation.is_last) = (server, procedure, true);
                (operation.body, operation.tells_patience, operation.begins) = (Pace::AtOnce, false, LENGTH);
                (operation.attempts, operation.duplicates) = (1, if place == 0 { 2 } else { 0 });
                operation.behaviours.drain(..operation.behaviours.len() - 1);
                operation.behaviours[0].before = before;
                all.push(operation);
            }
        }
    }

    /// Returns what the handler does when it runs the operation for the `run`th time, from 0.
    pub fn behaviour(&self, run: usize) -> Behaviour {
        self.behaviours[run.min(self.behaviours.len() - 1)]
    }

    /// Returns when the second half of its first message leaves, if it comes later than the first.
    pub(super) fn second_half(&self) -> Option<Duration> {
        match self.body {
            Pace::Stops(time) => Some(self.begins + time),
            Pace::AtOnce | Pace::Never => None,
        }
    }

    /// Returns whose it is: a user in one tenant.
    pub fn owner(&self) -> Uuid {
        Uuid::from_u128(self.user.unwrap_or_default().as_u128() ^ u128::from(self.scope))
    }

    /// Returns the text of its request, which its response has, too.
    pub fn text(&self) -> String {
        let more = if self.is_long() { " and more".repeat(20) } else { String::new() };
        format!("entry {}{more}", self.message)
    }

    /// Returns whether its response is longer than [`LONGEST_RESPONSE`].
    pub fn is_long(&self) -> bool {
        self.message.is_multiple_of(5)
    }
}

impl GoCall {
    fn draw(random: &mut Random, begins: Duration) -> Self {
        let apart = random.duration(Duration::from_millis(1)..=Duration::from_secs(3));
        Self {
            at: if random.once_in(2) { begins.saturating_sub(apart) } else { begins + apart },
            takes: random.duration(Duration::from_millis(1)..=Duration::from_secs(15)),
            succeeds: !random.once_in(3),
        }
    }
}

/// Returns the caller that a user is in a tenant; in the first, without one.
///
/// # Panics
///
/// Never: a number is a scope.
pub fn caller(user: Uuid, scope: u8) -> Caller {
    let caller = Caller::new(UserId::new(user));
    match scope {
        0 => caller,
        _ => caller.in_scope(Scope::from_text(&scope.to_string()).expect("a digit")),
    }
}

/// Makes a key that tells when it was made: some time before the operation begins.
fn version_7(begins: Duration, random: &mut Random) -> Uuid {
    let age = random.duration(Duration::from_millis(1)..=Duration::from_secs(600));
    let milliseconds = (Duration::from_secs(BEGINNING) + begins - age).as_millis();
    let [.., a, b, c, d, e, f, g, h, i, j] = random.bytes();
    let milliseconds = u64::try_from(milliseconds).unwrap_or_default();
    Builder::from_unix_timestamp_millis(milliseconds, &[a, b, c, d, e, f, g, h, i, j]).into_uuid()
}
