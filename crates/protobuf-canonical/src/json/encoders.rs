//! The canonical encoders of the messages in an `Any`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use prost_reflect::MessageDescriptor;

use crate::Canonical;

/// The encoders of the types that were found so far, by full name.
#[derive(Debug, Default)]
pub(super) struct Encoders(Mutex<HashMap<String, Arc<Canonical>>>);

impl Encoders {
    pub(super) fn get(&self, message: &MessageDescriptor) -> Arc<Canonical> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(message.full_name().to_owned()).or_insert_with(|| Arc::new(Canonical::new(message))))
    }
}
