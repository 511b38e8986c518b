//! The contenders: the ways to answer a CreateProject that are compared.

use tonic_idempotency::policy::{EffectPolicy, Mode};

use super::{by_hand::Way, go_interceptor::Wiring};

/// A way to answer a CreateProject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) guard: Guard,
}

/// The guard between the caller and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    ByHand(Way),
    GoInterceptor(Wiring, Statements),
    Layer(Layer),
    /// No guard.
    None,
    /// A look-up by primary key in place of the handler.
    PrimaryKey,
}

/// The settings of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) mode: Mode,
    pub(crate) effect: EffectPolicy,
    pub(crate) statements: Statements,
    pub(crate) batches: Batches,
    pub(crate) replays: Replays,
}

/// The way in which a guard sends its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statements {
    /// As the product does by default: prepared once for each connection.
    AsItComes,
    /// Parsed and planned each time, which works behind any PgBouncer.
    Parsed,
}

/// Whether calls that wait share statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batches {
    /// As it comes: they do.
    AsItComes,
    /// Each call has statements of its own: `max_batch(1)`.
    Off,
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

pub(crate) const FLOOR: Contender = Contender { name: "floor: one plain INSERT", guard: Guard::ByHand(Way::Floor) };

pub(crate) const INSERT_FIRST: Contender =
    Contender { name: "by hand, INSERT first", guard: Guard::ByHand(Way::InsertFirst) };

pub(crate) const SEQUENCE: Contender = Contender { name: "by hand, SELECT first", guard: Guard::ByHand(Way::Sequence) };

pub(crate) const PRIMARY_KEY: Contender = Contender { name: "primary-key SELECT", guard: Guard::PrimaryKey };

pub(crate) const GO_LEANEST: Contender =
    go_interceptor("Go interceptor, leanest wiring", Wiring::Leanest, Statements::AsItComes);

pub(crate) const GO_LEANEST_PARSED: Contender =
    go_interceptor("Go interceptor, leanest wiring, parsed", Wiring::Leanest, Statements::Parsed);

pub(crate) const GO_PRODUCT: Contender =
    go_interceptor("Go interceptor, as its product wires it", Wiring::Product, Statements::AsItComes);

pub(crate) const RESERVED: Contender = layer("reserved", RESERVED_LAYER);

pub(crate) const RESERVED_PARSED: Contender =
    layer("reserved, parsed", Layer { statements: Statements::Parsed, ..RESERVED_LAYER });

pub(crate) const RESERVED_ALONE: Contender =
    layer("reserved, without batches", Layer { batches: Batches::Off, ..RESERVED_LAYER });

pub(crate) const RESERVED_HERE: Contender = layer("reserved, same server", RESERVED_HERE_LAYER);

pub(crate) const RESERVED_HERE_ALONE: Contender =
    layer("reserved, same server, without batches", Layer { batches: Batches::Off, ..RESERVED_HERE_LAYER });

pub(crate) const TRANSACTIONAL: Contender = layer("transactional", TRANSACTIONAL_LAYER);

pub(crate) const TRANSACTIONAL_PARSED: Contender =
    layer("transactional, parsed", Layer { statements: Statements::Parsed, ..TRANSACTIONAL_LAYER });

pub(crate) const TRANSACTIONAL_ALONE: Contender =
    layer("transactional, without batches", Layer { batches: Batches::Off, ..TRANSACTIONAL_LAYER });

pub(crate) const FROM_MEMORY: Contender =
    layer("from memory", Layer { replays: Replays::Memory, ..TRANSACTIONAL_LAYER });

const RESERVED_LAYER: Layer = Layer {
    mode: Mode::Reserved,
    effect: EffectPolicy::Anywhere,
    statements: Statements::AsItComes,
    batches: Batches::AsItComes,
    replays: Replays::Store,
};

const RESERVED_HERE_LAYER: Layer = Layer { effect: EffectPolicy::SameServer, ..RESERVED_LAYER };

const TRANSACTIONAL_LAYER: Layer = Layer { mode: Mode::Transactional, ..RESERVED_LAYER };

const fn go_interceptor(name: &'static str, wiring: Wiring, statements: Statements) -> Contender {
    Contender { name, guard: Guard::GoInterceptor(wiring, statements) }
}

const fn layer(name: &'static str, layer: Layer) -> Contender {
    Contender { name, guard: Guard::Layer(layer) }
}
