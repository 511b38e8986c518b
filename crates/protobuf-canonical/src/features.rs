//! Reads `features` from a field's options, as in editions. They override the syntax of the field's file.
//!
//! prost-reflect does not support editions. Its pools can still hold a field from an edition, as a proto2 field with its resolved features
//! in its options.

use prost::Message;
use prost_reflect::{FieldDescriptor, Kind, Syntax};

/// Returns whether protobuf-go tells the field's default from a field that is not set.
pub(super) fn has_presence(field: &FieldDescriptor) -> bool {
    let is_always_explicit = || field.containing_oneof().is_some() || matches!(field.kind(), Kind::Message(_));
    field.supports_presence() && (is_always_explicit() || FeatureSet::of(field).field_presence != IMPLICIT)
}

/// Returns whether protobuf-go refuses strings of this field that are not UTF-8.
pub(super) fn verifies_utf8(field: &FieldDescriptor) -> bool {
    match FeatureSet::of(field).utf8_validation {
        UNKNOWN => field.parent_file().syntax() == Syntax::Proto3,
        validation => validation == VERIFY,
    }
}

/// The value of a feature that is not set.
const UNKNOWN: i32 = 0;

/// A value of `field_presence`.
const IMPLICIT: i32 = 2;

/// A value of `utf8_validation`.
const VERIFY: i32 = 2;

/// `google.protobuf.FieldOptions`
#[derive(Clone, PartialEq, Message)]
struct FieldOptions {
    #[prost(message, optional, tag = "21")]
    features: Option<FeatureSet>,
}

/// `google.protobuf.FeatureSet`
#[derive(Clone, PartialEq, Message)]
struct FeatureSet {
    #[prost(int32, tag = "1")]
    field_presence: i32,
    #[prost(int32, tag = "4")]
    utf8_validation: i32,
}

impl FeatureSet {
    fn of(field: &FieldDescriptor) -> Self {
        if field.field_descriptor_proto().options.is_none() {
            return Self::default();
        }
        // By way of the bytes, as `features` is an unknown field if the pool has an old version of `descriptor.proto`.
        let options = field.options().encode_to_vec();
        FieldOptions::decode(options.as_slice()).unwrap_or_default().features.unwrap_or_default()
    }
}
