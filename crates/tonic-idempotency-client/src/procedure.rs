//! The procedures that the layer knows, by their options or from code.

use std::{collections::HashMap, sync::Arc};

use prost::Message as _;
use tonic_idempotency_wire::{nearest, proto::v1};

use crate::{
    BuildError, ProcedureError,
    descriptor::{FileDescriptorSet, MethodDescriptor, MethodOptions},
    key_field::KeyField,
    telemetry::Telemetry,
};

/// The settings of procedures that are made in code.
#[derive(Clone, Debug, Default)]
pub(crate) struct InCode {
    /// The paths of procedures that take keys, and of those that need none.
    pub(crate) named: Vec<(String, Procedure)>,
    /// The paths of procedures, and of the fields of their requests that have the key.
    pub(crate) key_fields: Vec<(String, String)>,
}

/// A procedure whose calls the layer sends again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Procedure {
    /// Whether its calls get a key. Otherwise they have no side effects, or are idempotent by themselves.
    pub(crate) takes_key: bool,
    pub(crate) key_field: Option<KeyField>,
    /// Whether the server lets a second call wait for the first one with the same key.
    pub(crate) waits: bool,
}

/// The procedures by their paths, such as `/shop.v1.Orders/Create`.
#[derive(Debug, Default)]
pub(crate) struct Procedures {
    by_path: HashMap<String, MeasuredProcedure>,
}

/// A procedure, and the telemetry of its calls.
#[derive(Debug)]
pub(crate) struct MeasuredProcedure {
    /// Its number among the procedures of the layer.
    pub(crate) number: usize,
    pub(crate) procedure: Procedure,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl Procedures {
    /// Reads the options in an encoded `FileDescriptorSet`, and adds those that are named in code.
    pub(crate) fn resolve(descriptors: &[u8], in_code: &InCode) -> Result<Self, BuildError> {
        let descriptors = FileDescriptorSet::decode(descriptors).map_err(BuildError::Descriptors)?;
        let mut by_path: HashMap<String, Procedure> = HashMap::new();
        let mut all = HashMap::new();
        for file in &descriptors.file {
            for service in &file.service {
                for method in &service.method {
                    let dot = if file.package.is_empty() { "" } else { "." };
                    let path = format!("/{}{dot}{}/{}", file.package, service.name, method.name);
                    if let Some(procedure) = described(&path, method, &descriptors)? {
                        by_path.insert(path.clone(), procedure);
                    }
                    all.insert(path, method);
                }
            }
        }
        let unknown = |path: &String| ProcedureError::Unknown {
            procedure: path.clone(),
            nearest: nearest(path, all.keys().map(String::as_str)),
        };
        let known = |path: &String| all.get(path).ok_or_else(|| unknown(path));
        for (path, procedure) in &in_code.named {
            check_unary(path, known(path)?)?;
            by_path.entry(path.clone()).or_insert_with(|| procedure.clone());
        }
        for (path, field) in &in_code.key_fields {
            let field = KeyField::resolve(path, field, &descriptors, &known(path)?.input_type)?;
            let taking = by_path.get_mut(path).filter(|procedure| procedure.takes_key);
            taking.ok_or_else(|| ProcedureError::NotOptedIn { procedure: path.clone() })?.key_field = Some(field);
        }
        if !by_path.values().any(|procedure| procedure.takes_key) {
            return Err(BuildError::NoProcedures);
        }
        let measured = by_path.into_iter().enumerate().map(|(number, (path, procedure))| {
            let telemetry = Arc::new(Telemetry::new(&path));
            (path, MeasuredProcedure { number, procedure, telemetry })
        });
        Ok(Self { by_path: measured.collect() })
    }

    pub(crate) fn len(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&MeasuredProcedure> {
        self.by_path.get(path)
    }
}

/// Reads the options of a procedure; `None` if its calls are not retried.
fn described(
    path: &str,
    method: &MethodDescriptor,
    descriptors: &FileDescriptorSet,
) -> Result<Option<Procedure>, ProcedureError> {
    let Some(options) = &method.options else { return Ok(None) };
    let Some(option) = &options.procedure else {
        let level = options.idempotency_level;
        let repeatable = matches!(level, MethodOptions::NO_SIDE_EFFECTS | MethodOptions::IDEMPOTENT);
        let is_unary = !method.client_streaming && !method.server_streaming;
        return Ok((repeatable && is_unary).then(Procedure::default));
    };
    check_unary(path, method)?;
    let key_field = match option.key_field.as_str() {
        "" => None,
        field => Some(KeyField::resolve(path, field, descriptors, &method.input_type)?),
    };
    let waits = option.on_in_progress() == v1::InProgressPolicy::Wait;
    Ok(Some(Procedure { takes_key: true, key_field, waits }))
}

fn check_unary(path: &str, method: &MethodDescriptor) -> Result<(), ProcedureError> {
    if method.client_streaming || method.server_streaming {
        return Err(ProcedureError::Streaming { procedure: path.to_owned() });
    }
    Ok(())
}
