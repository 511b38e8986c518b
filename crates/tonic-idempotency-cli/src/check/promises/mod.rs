//! The promises, a file for each group.

mod answers;
mod effects;
mod faults;
mod keys;
mod message;
mod mixed;
mod ours;
mod promise;
mod replays;

pub(super) use self::promise::{Group, Need, Promise};

/// The version of the list: the first number changes when a server that kept all of them may fail one.
pub(super) const SPECIFICATION: &str = "1.0";

pub(super) const GROUPS: &[Group] =
    &[effects::GROUP, mixed::GROUP, message::GROUP, keys::GROUP, replays::GROUP, faults::GROUP, ours::GROUP];

pub(super) fn all() -> impl Iterator<Item = &'static Promise> {
    GROUPS.iter().flat_map(|group| group.promises)
}
