//! The fields that are not part of a request.

use std::collections::BTreeMap;

/// The ignored fields of a message, by number, and those of the messages in its fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct IgnoreMask {
    fields: BTreeMap<u32, Part>,
}

/// The ignored part of a field.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    All,
    /// Fields of the messages in it.
    Inside(IgnoreMask),
}

impl IgnoreMask {
    /// Ignores the fields at these paths of field numbers.
    pub(crate) fn new(paths: &[Vec<u32>]) -> Self {
        let mut ignored = Self::default();
        paths.iter().for_each(|path| ignored.insert(path));
        ignored
    }

    fn insert(&mut self, path: &[u32]) {
        match path {
            [] => {}
            [field] => drop(self.fields.insert(*field, Part::All)),
            [field, inner @ ..] => {
                if let Part::Inside(ignored) = self.fields.entry(*field).or_insert(Part::Inside(Self::default())) {
                    ignored.insert(inner);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn get(&self, field: u32) -> Option<&Part> {
        self.fields.get(&field)
    }

    /// Returns the ignored fields of the messages in a field.
    pub(crate) fn inside(&self, field: u32) -> Option<&Self> {
        match self.get(field) {
            Some(Part::Inside(ignored)) => Some(ignored),
            _ => None,
        }
    }
}
