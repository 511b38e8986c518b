//! The operations on a key, and how they are drawn: [`Operation`], [`Draws`].

use std::{fmt, time::Duration};

use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    status::{OutboxStatus, Resource},
    store::{
        AbandonedQuery, CallSession, Claim, ClaimOutcome, Completion, RequestHash, RequestHashes, Reservation,
        StoredMessage, StoredResponse,
    },
};
use uuid::Uuid;

use super::subject::{GoStatement, halves};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// How long a transaction may be idle: unlike each lease.
pub(super) const IDLE: Duration = Duration::from_secs(3 * 3600);

const PROCEDURES: [&str; 2] = ["/shop.v1.Shop/Order", "/shop.v1.Shop/Pay"];

/// An operation on a key.
#[derive(Clone)]
pub(super) enum Operation {
    Abandon(Reservation),
    Abandoned(AbandonedQuery),
    Begin(Claim),
    Claim(Claim),
    /// The end of the transaction with the token of this claim.
    Commit(Claim, Option<Completion>),
    Complete(Reservation, Completion),
    Extend(Reservation, Duration),
    Go(Claim, GoStatement),
    LookUp {
        with_status: bool,
    },
    Release(Reservation),
    RollBack(Claim),
    Sweep(u32),
}

/// An operation that was carried out.
#[derive(Clone)]
pub(super) struct Done {
    pub(super) operation: Operation,
    pub(super) store: usize,
    /// The numbers of its beginning and its end among those of the key.
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) took: Duration,
    pub(super) answer: String,
}

impl Done {
    /// Returns whether it has lost against others, or has waited too long: then it has changed nothing.
    pub(super) fn has_lost(&self) -> bool {
        matches!(self.answer.as_str(), "error Conflict" | "error Overloaded")
    }
}

/// Draws the operations of a key.
pub(super) struct Draws<'a> {
    pub(super) random: fastrand::Rng,
    pub(super) owner: OwnerId,
    pub(super) key: KeyId,
    pub(super) resources: &'a [(Resource, Option<OutboxStatus>)],
}

impl Draws<'_> {
    pub(super) fn one_of<T: Clone>(&mut self, several: &[T]) -> T {
        several[self.random.usize(..several.len())].clone()
    }

    pub(super) fn once_in(&mut self, times: u8) -> bool {
        self.random.u8(..times) == 0
    }

    pub(super) fn claim(&mut self) -> Claim {
        let other = |random: &mut fastrand::Rng| RequestHash::from([u8::from(random.u8(..8) == 0); 32]);
        let canonical = other(&mut self.random);
        let arrived = self.random.bool().then(|| other(&mut self.random));
        Claim {
            reservation: Reservation { owner: self.owner, key: self.key, token: Uuid::from_u128(self.random.u128(..)) },
            session: CallSession::default(),
            procedure: PROCEDURES[usize::from(self.once_in(12))].to_owned(),
            request: RequestHashes::new(canonical, arrived),
            lease: self.one_of(&[Duration::ZERO, HOUR]),
            retention: self.one_of(&[Duration::ZERO, HOUR, HOUR, 2 * HOUR]),
            on_lease_ended: self.one_of(&[LeasePolicy::Reconcile, LeasePolicy::Refuse, LeasePolicy::Rerun]),
            on_foreign_reservation: self.one_of(&[
                ForeignPolicy::InProgress,
                ForeignPolicy::Reconcile,
                ForeignPolicy::Rerun,
            ]),
            effect: self.one_of(&[EffectPolicy::Anywhere, EffectPolicy::SameServer]),
            resource_type: self.one_of(&[None, Some("project".to_owned())]),
        }
    }

    pub(super) fn completion(&mut self) -> Completion {
        let response = match self.random.u8(..8) {
            0 => StoredResponse::NotStored,
            1 => StoredResponse::Error("an error".into()),
            2 => StoredResponse::message(""),
            3 | 4 => StoredResponse::Sealed(vec![0, self.random.u8(..)].into()),
            _ => StoredResponse::Message(StoredMessage {
                message: vec![self.random.u8(1..); 3].into(),
                metadata: self.random.bool().then(|| "metadata".into()),
            }),
        };
        let id = Uuid::from_u128(self.random.u8(..4).into()).into();
        let email = Resource { resource_type: "email".to_owned(), id };
        let resource = match self.random.u8(..4) {
            _ if matches!(response, StoredResponse::Error(_)) => None,
            0 | 1 => None,
            2 => Some(email),
            _ => Some(self.one_of(self.resources).0),
        };
        Completion { response, resource, retention: self.one_of(&[Duration::ZERO, HOUR, HOUR, 2 * HOUR]) }
    }

    pub(super) fn search(&mut self) -> AbandonedQuery {
        AbandonedQuery {
            procedures: PROCEDURES[..self.random.usize(1..=2)].iter().map(|&it| it.to_owned()).collect(),
            lookback: self.one_of(&[None, Some(HOUR)]),
            max_attempts: self.random.u32(1..4),
            // All that there are.
            batch: 100_000,
        }
    }

    /// Returns an operation on a reservation, by the call that has it or had it.
    pub(super) fn on_reservation(&mut self, of: Reservation) -> Operation {
        match self.random.u8(..9) {
            0..5 => Operation::Complete(of, self.completion()),
            5 => Operation::Extend(of, self.one_of(&[Duration::ZERO, HOUR])),
            6 | 7 => Operation::Release(of),
            _ => Operation::Abandon(of),
        }
    }
}

/// Describes the outcome of a claim, with times rounded to half hours.
pub(super) fn describe(outcome: &ClaimOutcome) -> String {
    match outcome {
        ClaimOutcome::InFlight { lease_left } => format!("InFlight {}", halves(*lease_left)),
        ClaimOutcome::Replay(replay) => {
            let expires = halves(replay.expires_in);
            format!("Replay {:?} {:?} {:?} {expires}", replay.response, replay.resource, replay.status)
        }
        other => format!("{other:?}"),
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abandon(Reservation { token, .. }) => write!(f, "abandon {token:.4}"),
            Self::Abandoned(search) => write!(f, "abandoned {search:?}"),
            Self::Begin(claim) => write!(f, "begin {}", Short(claim)),
            Self::Claim(claim) => write!(f, "claim {}", Short(claim)),
            Self::Commit(claim, completion) => write!(f, "commit {:.4} {completion:?}", claim.reservation.token),
            Self::Complete(Reservation { token, .. }, completion) => write!(f, "complete {token:.4} {completion:?}"),
            Self::Extend(Reservation { token, .. }, lease) => write!(f, "extend {token:.4} {lease:?}"),
            Self::Go(claim, statement) => write!(f, "Go: {statement:?} {:?}", claim.retention),
            Self::LookUp { with_status } => write!(f, "look up, status: {with_status}"),
            Self::Release(Reservation { token, .. }) => write!(f, "release {token:.4}"),
            Self::RollBack(claim) => write!(f, "roll back {:.4}", claim.reservation.token),
            Self::Sweep(batch) => write!(f, "sweep {batch}"),
        }
    }
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, store, began, ended, took, answer } = self;
        write!(f, "{began}–{ended} store {store}, {took:.1?}: {operation:?} → {answer}")
    }
}

/// The parts of a claim that decide.
struct Short<'a>(&'a Claim);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { reservation, lease, retention, on_lease_ended, on_foreign_reservation, .. } = self.0;
        let request = [Some(self.0.request.canonical()), self.0.request.as_arrived()];
        let request = request.map(|hash| hash.map(|hash| hash.as_bytes()[0]));
        let policies = (on_lease_ended, on_foreign_reservation);
        write!(f, "{:.4} {} {request:?} {lease:?} {retention:?} {policies:?}", reservation.token, self.0.procedure)
    }
}
