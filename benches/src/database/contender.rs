//! The contenders: the ways to answer a CreateProject that are compared.

use tonic_idempotency::policy::{EffectPolicy, Mode};

use super::by_hand::Way;

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
    GoInterceptor,
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
    /// Whether statements are parsed and planned each time, which works behind any PgBouncer, instead of as it comes: prepared once for each
    /// connection.
    pub(crate) parses: bool,
    /// Whether calls that wait share statements, as it comes.
    pub(crate) batches: bool,
    /// Whether replays are from the layer's memory, if it has answered this call before.
    pub(crate) remembers: bool,
}

pub(crate) const BARE: Contender = Contender { name: "bare handler", guard: Guard::None };

pub(crate) const FLOOR: Contender = Contender { name: "floor: one plain INSERT", guard: Guard::ByHand(Way::Floor) };

pub(crate) const INSERT_FIRST: Contender =
    Contender { name: "by hand, INSERT first", guard: Guard::ByHand(Way::InsertFirst) };

pub(crate) const SEQUENCE: Contender = Contender { name: "by hand, SELECT first", guard: Guard::ByHand(Way::Sequence) };

pub(crate) const PRIMARY_KEY: Contender = Contender { name: "primary-key SELECT", guard: Guard::PrimaryKey };

pub(crate) const GO_LEANEST: Contender =
    Contender { name: "Go interceptor, leanest wiring", guard: Guard::GoInterceptor };

pub(crate) const RESERVED: Contender = layer("reserved", RESERVED_LAYER);

pub(crate) const RESERVED_PARSED: Contender = layer("reserved, parsed", Layer { parses: true, ..RESERVED_LAYER });

pub(crate) const RESERVED_ALONE: Contender =
    layer("reserved, without batches", Layer { batches: false, ..RESERVED_LAYER });

pub(crate) const RESERVED_HERE: Contender = layer("reserved, same server", RESERVED_HERE_LAYER);

pub(crate) const RESERVED_HERE_ALONE: Contender =
    layer("reserved, same server, without batches", Layer { batches: false, ..RESERVED_HERE_LAYER });

pub(crate) const TRANSACTIONAL: Contender = layer("transactional", TRANSACTIONAL_LAYER);

pub(crate) const TRANSACTIONAL_PARSED: Contender =
    layer("transactional, parsed", Layer { parses: true, ..TRANSACTIONAL_LAYER });

pub(crate) const TRANSACTIONAL_ALONE: Contender =
    layer("transactional, without batches", Layer { batches: false, ..TRANSACTIONAL_LAYER });

pub(crate) const FROM_MEMORY: Contender = layer("from memory", Layer { remembers: true, ..TRANSACTIONAL_LAYER });

const RESERVED_LAYER: Layer =
    Layer { mode: Mode::Reserved, effect: EffectPolicy::Anywhere, parses: false, batches: true, remembers: false };

const RESERVED_HERE_LAYER: Layer = Layer { effect: EffectPolicy::SameServer, ..RESERVED_LAYER };

const TRANSACTIONAL_LAYER: Layer = Layer { mode: Mode::Transactional, ..RESERVED_LAYER };

const fn layer(name: &'static str, layer: Layer) -> Contender {
    Contender { name, guard: Guard::Layer(layer) }
}
