//! The tower layer, its builder and its service.

pub(crate) mod builder;
pub(crate) mod interceptor;
#[expect(clippy::module_inception, reason = "as every middleware folder has it")]
pub(crate) mod layer;
pub(crate) mod service;
