//! Converts the claims of a batch into parameters.

use super::reservations::{Reservations, claim_bytes, settings};
use crate::{
    policy::EffectPolicy,
    store::{
        Claim,
        sql::{
            driver::Value,
            statements::{arrival_hash, request_hash},
        },
    },
};

/// Keys that are to be reserved, as the parameters of a statement. A key that has a row, even an expired one, is sent alone.
pub(super) struct ReservationParameters<'a> {
    pub(super) reservations: Reservations,
    procedures: Vec<Option<&'a str>>,
    hashes: Vec<Option<&'a [u8]>>,
    arrivals: Vec<Option<&'a [u8]>>,
    leases: Vec<f64>,
    retentions: Vec<f64>,
    effects_are_here: bool,
    users: Vec<Option<uuid::Uuid>>,
    settings: Option<Vec<Option<&'a str>>>,
}

impl<'a> ReservationParameters<'a> {
    pub(super) fn new(claims: &[&'a Claim]) -> Self {
        Self {
            reservations: claims.iter().map(|claim| &claim.reservation).collect(),
            procedures: claims.iter().map(|claim| Some(claim.procedure.as_str())).collect(),
            hashes: claims.iter().map(|claim| Some(request_hash(&claim.request))).collect(),
            arrivals: claims.iter().map(|claim| arrival_hash(&claim.request)).collect(),
            leases: claims.iter().map(|claim| claim.lease.as_secs_f64()).collect(),
            retentions: claims.iter().map(|claim| claim.retention.as_secs_f64()).collect(),
            effects_are_here: claims.iter().all(|claim| claim.effect == EffectPolicy::SameServer),
            users: claims.iter().map(|claim| claim.session.user).collect(),
            settings: settings(claims.iter().copied()),
        }
    }

    pub(super) fn parameters(&self) -> [Value<'_>; 11] {
        let Reservations { owners, keys, tokens } = &self.reservations;
        [
            Value::Uuids(owners),
            Value::Uuids(keys),
            Value::Uuids(tokens),
            Value::OptionalTexts(&self.procedures),
            Value::OptionalBytes(&self.hashes),
            Value::OptionalBytes(&self.arrivals),
            Value::Doubles(&self.leases),
            Value::Doubles(&self.retentions),
            self.effects_are_here.into(),
            Value::OptionalUuids(&self.users),
            self.settings.as_deref().map_or(Value::Texts(None), Value::OptionalTexts),
        ]
    }
}

/// The bytes of a claim's parameters.
pub(super) fn bytes(claim: &Claim) -> usize {
    let arrival = arrival_hash(&claim.request).map_or(0, <[u8]>::len);
    claim_bytes(claim) + claim.procedure.len() + request_hash(&claim.request).len() + arrival + 2 * size_of::<f64>()
}
