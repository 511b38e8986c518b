//! The features of a field.

/// `google.protobuf.FeatureSet`, without the features that neither encoding depends on.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct FeatureSet {
    #[prost(int32, optional, tag = "1")]
    pub(super) field_presence: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) repeated_field_encoding: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub(super) utf8_validation: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) message_encoding: Option<i32>,
    #[prost(int32, optional, tag = "6")]
    pub(super) json_format: Option<i32>,
}

/// The resolved features of a field, or of an element that fields are declared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) field_presence: FieldPresence,
    pub(super) json_format: JsonFormat,
    pub(super) message_encoding: MessageEncoding,
    pub(super) repeated_field_encoding: RepeatedFieldEncoding,
    pub(super) utf8_validation: Utf8Validation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum FieldPresence {
    Explicit = 1,
    Implicit = 2,
    LegacyRequired = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum JsonFormat {
    Allow = 1,
    LegacyBestEffort = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum MessageEncoding {
    LengthPrefixed = 1,
    Delimited = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum RepeatedFieldEncoding {
    Packed = 1,
    Expanded = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Utf8Validation {
    Verify = 2,
    None = 3,
}

/// A value of a feature that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownValue {
    pub(super) feature: &'static str,
    pub(super) value: i32,
}

impl Features {
    /// The defaults of editions 2023 and 2024, which are the same.
    pub(super) const DEFAULT: Self = Self {
        field_presence: FieldPresence::Explicit,
        json_format: JsonFormat::Allow,
        message_encoding: MessageEncoding::LengthPrefixed,
        repeated_field_encoding: RepeatedFieldEncoding::Packed,
        utf8_validation: Utf8Validation::Verify,
    };

    /// Returns the features of an element that inherits these and has `own` features.
    pub(super) fn overridden(self, own: Option<&FeatureSet>) -> Result<Self, UnknownValue> {
        let Some(own) = own else { return Ok(self) };
        Ok(Self {
            field_presence: value("field_presence", own.field_presence, self.field_presence)?,
            json_format: value("json_format", own.json_format, self.json_format)?,
            message_encoding: value("message_encoding", own.message_encoding, self.message_encoding)?,
            repeated_field_encoding: value(
                "repeated_field_encoding",
                own.repeated_field_encoding,
                self.repeated_field_encoding,
            )?,
            utf8_validation: value("utf8_validation", own.utf8_validation, self.utf8_validation)?,
        })
    }
}

fn value<T: TryFrom<i32>>(feature: &'static str, own: Option<i32>, inherited: T) -> Result<T, UnknownValue> {
    own.map_or(Ok(inherited), |value| T::try_from(value).map_err(|_| UnknownValue { feature, value }))
}
