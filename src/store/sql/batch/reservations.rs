//! The reservations of a statement, and which of them it says were changed.

use std::collections::HashSet;

use uuid::Uuid;

use crate::store::{
    Claim, Reservation,
    sql::{
        driver::{DriverError, Row},
        statements::column,
    },
};

/// The bytes of a reservation.
pub(super) const BYTES: usize = 3 * size_of::<Uuid>();

/// Owners, keys and tokens, as the parameters of a statement.
pub(super) struct Reservations {
    pub(super) owners: Vec<Uuid>,
    pub(super) keys: Vec<Uuid>,
    pub(super) tokens: Vec<Uuid>,
}

impl<'a> FromIterator<&'a Reservation> for Reservations {
    fn from_iter<T: IntoIterator<Item = &'a Reservation>>(reservations: T) -> Self {
        let reservations = reservations.into_iter();
        let many = reservations.size_hint().0;
        let [owners, keys, tokens] = [(); 3].map(|()| Vec::with_capacity(many));
        let mut all = Self { owners, keys, tokens };
        for reservation in reservations {
            all.owners.push(*reservation.owner.as_uuid());
            all.keys.push(*reservation.key.as_uuid());
            all.tokens.push(reservation.token);
        }
        all
    }
}

impl Reservations {
    /// Reads the tokens of those that a statement has changed. Returns an answer for each of these, and `None` for the others.
    pub(super) fn changed(&self, row: &impl Row, name: &str) -> Result<Vec<Option<()>>, DriverError> {
        let changed = column::<Option<&[u8]>>(row, name).map_err(DriverError::unanswered)?.unwrap_or_default();
        let (changed, rest) = changed.as_chunks();
        if !rest.is_empty() {
            return Err(DriverError::unanswered("the answer to another statement: a part of a token"));
        }
        let changed: HashSet<_> = changed.iter().copied().map(Uuid::from_bytes).collect();
        if changed.iter().any(|token| !self.tokens.contains(token)) {
            return Err(DriverError::unanswered("the answer to another statement: it has another call's token"));
        }
        Ok(self.tokens.iter().map(|token| changed.contains(token).then_some(())).collect())
    }
}

/// The settings of the application, of all items in turn; `None` if they have none.
pub(super) fn settings<'a>(claims: impl Iterator<Item = &'a Claim> + Clone) -> Option<Vec<Option<&'a str>>> {
    let settings = claims.flat_map(|claim| claim.session.settings.as_deref());
    let settings: Vec<_> = settings.flat_map(|it| it.as_flat()).map(|text| Some(text.as_str())).collect();
    (!settings.is_empty()).then_some(settings)
}

/// Returns whether the settings of two claims have the same names, in the same order: then each sets all that the other has set.
pub(super) fn have_equal_settings(one: &Claim, other: &Claim) -> bool {
    fn names(claim: &Claim) -> impl Iterator<Item = &str> {
        claim.session.settings.iter().flat_map(|it| it.iter()).map(|(name, _)| name)
    }
    names(one).eq(names(other))
}

/// The bytes of what identifies a call, and of its settings.
pub(super) fn claim_bytes(claim: &Claim) -> usize {
    let settings = claim.session.settings.iter().flat_map(|it| it.as_flat());
    BYTES + 2 * size_of::<Uuid>() + settings.map(String::len).sum::<usize>()
}
