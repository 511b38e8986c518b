//! The state that the services of one layer share.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::{journal::Journal, key::NewKeys, procedure::Procedures, settings::Settings};

/// The shared state of a layer's services.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) journal: Option<Journal>,
    pub(crate) new_keys: NewKeys,
    pub(crate) procedures: Procedures,
    pub(crate) settings: Settings,
    /// The procedures of which the log says already that a call was not kept.
    told: Mutex<HashSet<String>>,
}

impl Shared {
    pub(crate) fn new(procedures: Procedures, settings: Settings, journal: Option<Journal>) -> Self {
        Self { journal, new_keys: NewKeys::default(), procedures, settings, told: Mutex::default() }
    }

    /// Says once for each procedure that a call was not kept.
    pub(crate) fn tell(&self, procedure: &str) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(procedure.to_owned()) {
            tracing::warn!(
                procedure,
                max_request_bytes = self.settings.max_request_bytes,
                "a call is sent once, without a key: its request is a stream, or too large to keep"
            );
        }
    }
}
