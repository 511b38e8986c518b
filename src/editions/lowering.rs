//! The lowering of a file in an edition to proto2.

use std::collections::{HashMap, HashSet};

use prost::Message as _;

use super::{
    descriptor::{
        Field, FieldOptions, File, FileOptions, Label, Message, MessageOptions, OneofOptions, Type, full_name, read,
    },
    edition::Edition,
    error::DescriptorsError,
    features::{FeatureSet, Features, FieldPresence, JsonFormat, MessageEncoding, RepeatedFieldEncoding, UnknownValue},
};

/// Lowers a file in an edition. A file in proto2 or proto3 stays as it is.
pub(super) fn lower(file: &mut File) -> Result<(), DescriptorsError> {
    let edition = Edition::of(file)?;
    file.edition = None;
    if edition.is_none() {
        // prost-reflect does not know an empty syntax, which stands for proto2.
        file.syntax = file.syntax.take().filter(|syntax| !syntax.is_empty());
        return Ok(());
    }
    file.syntax = Some("proto2".to_owned());
    let name = file.name().to_owned();
    let lowering = Lowering { file: &name };
    let options: FileOptions = read(&file.options)?;
    let features = lowering.features(Features::DEFAULT, options.features.as_ref())?;
    let scope = format!(".{}", file.package());
    for message in &mut file.message_type {
        let scope = full_name(scope.trim_end_matches('.'), message.name());
        lowering.message(message, &scope, features)?;
    }
    for extension in &mut file.extension {
        lowering.field(extension, features, &MessageContext::default())?;
    }
    Ok(())
}

struct Lowering<'a> {
    /// The name of the file.
    file: &'a str,
}

/// The properties of a field's message that the field's lowering depends on, besides features.
#[derive(Default)]
struct MessageContext {
    /// The types of the message's maps, as `type_name` has them.
    map_entries: HashSet<String>,
    /// Whether the field is the key or the value of a map.
    in_map_entry: bool,
}

impl Lowering<'_> {
    /// Lowers a message with the full name `scope`, and the messages in it.
    fn message(&self, message: &mut Message, scope: &str, inherited: Features) -> Result<(), DescriptorsError> {
        let options: MessageOptions = read(&message.options)?;
        let features = self.features(inherited, options.features.as_ref())?;
        self.check_json_names(message, scope, features)?;
        let map_entries = message.nested_type.iter().filter(|nested| nested.is_map_entry());
        let around = MessageContext {
            map_entries: map_entries.map(|entry| full_name(scope, entry.name())).collect(),
            in_map_entry: options.map_entry(),
        };
        let mut of_oneofs = Vec::with_capacity(message.oneof_decl.len());
        for oneof in &message.oneof_decl {
            let options: OneofOptions = read(&oneof.options)?;
            of_oneofs.push(self.features(features, options.features.as_ref())?);
        }
        for field in &mut message.field {
            let oneof = field.oneof_index.and_then(|index| of_oneofs.get(usize::try_from(index).ok()?));
            self.field(field, *oneof.unwrap_or(&features), &around)?;
        }
        for extension in &mut message.extension {
            self.field(extension, features, &around)?;
        }
        for nested in &mut message.nested_type {
            let scope = full_name(scope, nested.name());
            self.message(nested, &scope, features)?;
        }
        Ok(())
    }

    fn field(&self, field: &mut Field, inherited: Features, around: &MessageContext) -> Result<(), DescriptorsError> {
        let options: FieldOptions = read(&field.options)?;
        let features = self.features(inherited, options.features.as_ref())?;
        let is_repeated = field.label() == Label::Repeated;
        if features.field_presence == FieldPresence::LegacyRequired && !is_repeated {
            field.set_label(Label::Required);
        }
        let is_map = around.in_map_entry || around.map_entries.contains(field.type_name());
        if features.message_encoding == MessageEncoding::Delimited && field.r#type() == Type::Message && !is_map {
            field.set_type(Type::Group);
        }
        let packed = features.repeated_field_encoding == RepeatedFieldEncoding::Packed;
        let resolved = FeatureSet {
            field_presence: Some(features.field_presence.into()),
            utf8_validation: Some(features.utf8_validation.into()),
            ..FeatureSet::default()
        };
        // Overrides the values so far, because the last of several values counts.
        let options =
            FieldOptions { packed: (is_repeated && field.is_packable()).then_some(packed), features: Some(resolved) };
        field.options.push(options.encode_to_vec().into());
        Ok(())
    }

    fn features(&self, inherited: Features, own: Option<&FeatureSet>) -> Result<Features, DescriptorsError> {
        inherited.overridden(own).map_err(|UnknownValue { feature, value }| DescriptorsError::Edition {
            file: self.file.to_owned(),
            feature: format!("features.{feature}"),
            why: format!("unknown value {value}: use a value that editions 2023 and 2024 have"),
        })
    }

    /// Refuses two fields with the same JSON name, which `LEGACY_BEST_EFFORT` allows.
    fn check_json_names(&self, message: &Message, scope: &str, features: Features) -> Result<(), DescriptorsError> {
        if features.json_format != JsonFormat::LegacyBestEffort {
            return Ok(());
        }
        let mut names = HashMap::new();
        for field in message.field.iter().filter(|field| field.json_name.is_some()) {
            if let Some(first) = names.insert(field.json_name(), field.name()) {
                return Err(DescriptorsError::Edition {
                    file: self.file.to_owned(),
                    feature: "features.json_format".to_owned(),
                    why: format!(
                        "the fields {first:?} and {:?} of {} have the same JSON name, {:?}: give one of them another \
                         json_name",
                        field.name(),
                        scope.trim_start_matches('.'),
                        field.json_name(),
                    ),
                });
            }
        }
        Ok(())
    }
}
