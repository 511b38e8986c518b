//! Who is measured against whom.

use tonic_idempotency::{EffectPolicy, Mode};

use super::fun15::Statements;

/// One way to answer a CreateProject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) guard: Guard,
}

/// What stands between the caller and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Fun15(Statements),
    Layer {
        mode: Mode,
        effect: EffectPolicy,
        statements: Statements,
        replays: Replays,
    },
    /// Nothing.
    None,
    /// In the handler's place, a look-up by primary key.
    PrimaryKey,
}

/// Where a replay comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replays {
    /// The layer's memory, where it has given it before.
    Memory,
    /// The store, each time.
    Store,
}

pub(crate) const BARE: Contender = Contender { name: "bare handler", guard: Guard::None };

pub(crate) const PRIMARY_KEY: Contender = Contender { name: "primary-key SELECT", guard: Guard::PrimaryKey };

pub(crate) const FUN15: Contender = Contender { name: "FUN-15, prepared", guard: Guard::Fun15(Statements::Prepared) };

pub(crate) const FUN15_PARSED: Contender =
    Contender { name: "FUN-15, parsed", guard: Guard::Fun15(Statements::Parsed) };

pub(crate) const RESERVED: Contender =
    layer("reserved, prepared", Mode::Reserved, EffectPolicy::Anywhere, Statements::Prepared);

pub(crate) const RESERVED_PARSED: Contender =
    layer("reserved, parsed", Mode::Reserved, EffectPolicy::Anywhere, Statements::Parsed);

pub(crate) const RESERVED_HERE: Contender =
    layer("reserved, same server", Mode::Reserved, EffectPolicy::SameServer, Statements::Prepared);

pub(crate) const TRANSACTIONAL: Contender =
    layer("transactional, prepared", Mode::Transactional, EffectPolicy::Anywhere, Statements::Prepared);

pub(crate) const TRANSACTIONAL_PARSED: Contender =
    layer("transactional, parsed", Mode::Transactional, EffectPolicy::Anywhere, Statements::Parsed);

pub(crate) const FROM_MEMORY: Contender = Contender {
    name: "from memory",
    guard: Guard::Layer {
        mode: Mode::Transactional,
        effect: EffectPolicy::Anywhere,
        statements: Statements::Prepared,
        replays: Replays::Memory,
    },
};

const fn layer(name: &'static str, mode: Mode, effect: EffectPolicy, statements: Statements) -> Contender {
    Contender { name, guard: Guard::Layer { mode, effect, statements, replays: Replays::Store } }
}
