//! The contenders: the ways to answer a CreateProject that are compared.

use tonic_idempotency::policy::{EffectPolicy, Mode};

use super::go_interceptor::Statements;

/// A way to answer a CreateProject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) guard: Guard,
}

/// The guard between the caller and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    GoInterceptor(Statements),
    Layer {
        mode: Mode,
        effect: EffectPolicy,
        statements: Statements,
        replays: Replays,
    },
    /// No guard.
    None,
    /// A look-up by primary key in place of the handler.
    PrimaryKey,
}

/// The source of replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replays {
    /// The layer's memory, if it has answered this call before.
    Memory,
    /// The store.
    Store,
}

pub(crate) const BARE: Contender = Contender { name: "bare handler", guard: Guard::None };

pub(crate) const PRIMARY_KEY: Contender = Contender { name: "primary-key SELECT", guard: Guard::PrimaryKey };

pub(crate) const GO_INTERCEPTOR: Contender =
    Contender { name: "Go interceptor, prepared", guard: Guard::GoInterceptor(Statements::Prepared) };

pub(crate) const GO_INTERCEPTOR_PARSED: Contender =
    Contender { name: "Go interceptor, parsed", guard: Guard::GoInterceptor(Statements::Parsed) };

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
