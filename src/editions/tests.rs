//! The lowering of each feature, and the refusal of broken descriptors.

use prost::Message as _;
use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

use super::{
    DescriptorsError,
    descriptor::{
        Field, FieldOptions, File, FileDescriptorSet, FileOptions, Label, Message, MessageOptions, Oneof, OneofOptions,
        Type,
    },
    features::FeatureSet,
    pool,
};

const IMPLICIT: i32 = 2;
const LEGACY_REQUIRED: i32 = 3;
const PACKED: i32 = 1;
const EXPANDED: i32 = 2;
const NONE: i32 = 3;
const DELIMITED: i32 = 2;
const LEGACY_BEST_EFFORT: i32 = 2;

fn bytes(message: &impl prost::Message) -> Vec<prost::bytes::Bytes> {
    vec![message.encode_to_vec().into()]
}

/// A file in an edition, with a message `M`.
fn file(edition: i32, features: FeatureSet, message: Message) -> File {
    File {
        name: Some("shop.proto".to_owned()),
        package: Some("shop".to_owned()),
        syntax: Some("editions".to_owned()),
        edition: Some(edition),
        options: bytes(&FileOptions { features: Some(features) }),
        message_type: vec![Message { name: Some("M".to_owned()), ..message }],
        ..File::default()
    }
}

fn field(number: i32, label: Label, of: Type, features: FeatureSet) -> Field {
    Field {
        name: Some(format!("f{number}")),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(of.into()),
        type_name: (of == Type::Message).then(|| ".shop.M".to_owned()),
        options: bytes(&FieldOptions { features: Some(features), ..FieldOptions::default() }),
        ..Field::default()
    }
}

fn encoding(value: i32) -> FeatureSet {
    FeatureSet { repeated_field_encoding: Some(value), ..FeatureSet::default() }
}

/// A message with these fields.
fn with(fields: Vec<Field>) -> Message {
    Message { field: fields, ..Message::default() }
}

fn built(files: Vec<File>) -> Result<DescriptorPool, DescriptorsError> {
    pool(&FileDescriptorSet { file: files }.encode_to_vec())
}

fn message(files: Vec<File>) -> MessageDescriptor {
    built(files).expect("descriptors").get_message_by_name("shop.M").expect("the message")
}

/// The error of descriptors, and of its causes.
fn error(files: Vec<File>) -> String {
    built(files).expect_err("an error").to_string()
}

/// The features in the options of a lowered field: the presence, and the validation of text.
fn resolved(field: &FieldDescriptor) -> (Option<i32>, Option<i32>) {
    let options = FieldOptions::decode(field.options().encode_to_vec().as_slice()).expect("options");
    let features = options.features.expect("features");
    (features.field_presence, features.utf8_validation)
}

/// Each feature and value, set for the file, the message and the field, in both editions.
#[test]
fn full_matrix() {
    let none = FeatureSet::default();
    let sets = [
        FeatureSet { field_presence: Some(IMPLICIT), ..none },
        FeatureSet { field_presence: Some(LEGACY_REQUIRED), ..none },
        encoding(EXPANDED),
        encoding(PACKED),
        FeatureSet { utf8_validation: Some(NONE), ..none },
        FeatureSet { message_encoding: Some(DELIMITED), ..none },
        none,
    ];
    for (edition, set, place) in [1000, 1001].into_iter().flat_map(|edition| {
        sets.iter().flat_map(move |set| ["file", "message", "oneof", "field"].map(|place| (edition, set, place)))
    }) {
        let told = format!("{edition} {set:?} {place}");
        let at = |here: &str| if place == here { *set } else { FeatureSet::default() };
        let lowered = message(vec![file(
            edition,
            at("file"),
            Message {
                options: bytes(&MessageOptions { features: Some(at("message")), ..MessageOptions::default() }),
                oneof_decl: vec![Oneof {
                    name: Some("choice".to_owned()),
                    options: bytes(&OneofOptions { features: Some(at("oneof")) }),
                }],
                field: vec![
                    field(1, Label::Optional, Type::Int32, at("field")),
                    field(2, Label::Repeated, Type::Int32, at("field")),
                    field(3, Label::Optional, Type::Message, at("field")),
                    field(4, Label::Optional, Type::String, at("field")),
                    Field { oneof_index: Some(0), ..field(5, Label::Optional, Type::Message, at("field")) },
                    Field { oneof_index: Some(0), ..field(6, Label::Optional, Type::String, at("field")) },
                ],
                ..Message::default()
            },
        )]);
        let lowered = |number| lowered.get_field(number).expect("a field");
        // Features set on a oneof apply only to its members; features set elsewhere apply to those members, too.
        let [beside, inside] = [place != "oneof", true].map(|applies| if applies { *set } else { none });

        let presence = beside.field_presence;
        let expected = if presence == Some(LEGACY_REQUIRED) { Cardinality::Required } else { Cardinality::Optional };
        assert_eq!(lowered(1).cardinality(), expected, "{told}");
        assert_eq!(resolved(&lowered(1)).0, Some(presence.unwrap_or(1)), "{told}");
        assert_eq!(lowered(2).is_packed(), beside.repeated_field_encoding != Some(EXPANDED), "{told}");
        assert_eq!(lowered(2).cardinality(), Cardinality::Repeated, "{told}");
        assert_eq!(lowered(3).is_group(), beside.message_encoding == Some(DELIMITED), "{told}");
        assert_eq!(resolved(&lowered(4)).1, Some(beside.utf8_validation.unwrap_or(2)), "{told}");
        assert_eq!(lowered(5).is_group(), inside.message_encoding == Some(DELIMITED), "{told}");
        assert_eq!(resolved(&lowered(6)).1, Some(inside.utf8_validation.unwrap_or(2)), "{told}");
    }
}

#[test]
fn the_nearest_feature_counts() {
    let nested = Message {
        name: Some("Inner".to_owned()),
        field: vec![
            field(1, Label::Repeated, Type::Int32, FeatureSet::default()),
            field(2, Label::Repeated, Type::Int32, encoding(EXPANDED)),
        ],
        ..Message::default()
    };
    let outer = Message {
        options: bytes(&MessageOptions { features: Some(encoding(PACKED)), ..MessageOptions::default() }),
        nested_type: vec![nested],
        ..Message::default()
    };
    let lowered = message(vec![file(1000, encoding(EXPANDED), outer)]);
    let inner = lowered.child_messages().next().expect("a message");
    assert!(inner.get_field(1).expect("a field").is_packed(), "of the message around, not of the file");
    assert!(!inner.get_field(2).expect("a field").is_packed(), "of the field");
}

#[test]
fn options_in_pieces_are_one() {
    let mut list = field(1, Label::Repeated, Type::Int32, encoding(EXPANDED));
    list.options.push(FieldOptions::default().encode_to_vec().into());
    let lowered = message(vec![file(1000, FeatureSet::default(), with(vec![list]))]);
    assert!(!lowered.get_field(1).expect("a field").is_packed());
}

#[test]
fn maps_are_never_groups() {
    let features = FeatureSet { message_encoding: Some(DELIMITED), ..FeatureSet::default() };
    let none = FeatureSet::default();
    let entry = Message {
        name: Some("F1Entry".to_owned()),
        field: vec![field(1, Label::Optional, Type::Int32, none), field(2, Label::Optional, Type::Message, none)],
        options: bytes(&MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..Message::default()
    };
    let map = Field { type_name: Some(".shop.M.F1Entry".to_owned()), ..field(1, Label::Repeated, Type::Message, none) };
    let list = field(2, Label::Repeated, Type::Message, none);
    let message = message(vec![file(1001, features, Message { nested_type: vec![entry], ..with(vec![map, list]) })]);
    let [map, list] = [1, 2].map(|number| message.get_field(number).expect("a field"));
    let Kind::Message(entry) = map.kind() else { panic!("a map") };
    assert!(map.is_map() && !map.is_group() && !entry.map_entry_value_field().is_group());
    assert!(list.is_group());
}

#[test]
fn names_the_file_and_the_feature_of_what_cannot_be_lowered() {
    let list = |value| field(1, Label::Repeated, Type::Int32, encoding(value));
    for (files, expected) in [
        (vec![file(1002, FeatureSet::default(), with(vec![]))], "shop.proto: edition: edition 2026 is not supported"),
        (
            vec![file(0, FeatureSet::default(), with(vec![]))],
            "shop.proto: edition: a file in editions without an edition",
        ),
        (vec![file(99_999, FeatureSet::default(), with(vec![]))], "the number 99999"),
        (
            vec![file(1000, FeatureSet::default(), with(vec![list(9)]))],
            "shop.proto: features.repeated_field_encoding: unknown value 9",
        ),
        (
            vec![file(1000, FeatureSet { utf8_validation: Some(0), ..FeatureSet::default() }, with(vec![]))],
            "shop.proto: features.utf8_validation: unknown value 0",
        ),
    ] {
        let error = error(files);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn refuses_fields_with_the_same_name_in_json() {
    let named = |number, name: &str| Field {
        json_name: Some(name.to_owned()),
        ..field(number, Label::Optional, Type::Int32, FeatureSet::default())
    };
    let features = FeatureSet { json_format: Some(LEGACY_BEST_EFFORT), ..FeatureSet::default() };
    let with = |fields| vec![file(1000, features, with(fields))];
    let error = error(with(vec![named(1, "same"), named(2, "same")]));
    assert!(error.starts_with("shop.proto: features.json_format: ") && error.contains("shop.M"), "{error}");
    assert!(error.contains(r#""f1" and "f2""#) && error.contains(r#""same""#), "{error}");
    assert!(built(with(vec![named(1, "one"), named(2, "another")])).is_ok());
}

/// The output of protoc 35.1 for `--edition_defaults_out`, with editions from proto2 to 2024.
#[test]
fn has_the_defaults_of_protoc() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct FeatureSetDefaults {
        #[prost(message, repeated, tag = "1")]
        defaults: Vec<OfEdition>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct OfEdition {
        #[prost(int32, optional, tag = "3")]
        edition: Option<i32>,
        #[prost(message, optional, tag = "4")]
        overridable: Option<FeatureSet>,
        #[prost(message, optional, tag = "5")]
        fixed: Option<FeatureSet>,
    }
    let defaults = super::vectors::read("edition_defaults.binpb");
    let defaults = FeatureSetDefaults::decode(defaults.as_slice()).expect("defaults").defaults;
    for edition in [1000, 1001] {
        let of = defaults.iter().find(|of| of.edition == Some(edition)).expect("an edition");
        let default = super::features::Features::DEFAULT;
        assert_eq!(of.fixed.map(|fixed| default.overridden(Some(&fixed))), Some(Ok(default)), "{edition}");
        let overridable = of.overridable.expect("features");
        assert_eq!(default.overridden(Some(&overridable)), Ok(default), "{edition}");
        let set = [
            overridable.field_presence,
            overridable.json_format,
            overridable.message_encoding,
            overridable.repeated_field_encoding,
            overridable.utf8_validation,
        ];
        assert!(set.iter().all(Option::is_some), "{edition}: {set:?}");
    }
}

/// A file without contents but for a message, and imports, the first of which is public.
fn importing(name: &str, imports: &[&str]) -> File {
    File {
        name: Some(name.to_owned()),
        dependency: imports.iter().map(|&import| import.to_owned()).collect(),
        public_dependency: if imports.is_empty() { vec![] } else { vec![0] },
        message_type: vec![Message { name: Some(name.to_owned()), ..Message::default() }],
        ..File::default()
    }
}

#[test]
fn public_imports_are_seen_through_several_files() {
    let using = |of: &str| {
        let mut file = importing("user", &["one"]);
        file.message_type[0].field = vec![Field {
            type_name: Some(format!(".{of}")),
            ..field(1, Label::Optional, Type::Message, FeatureSet::default())
        }];
        vec![
            file,
            importing("one", &["two", "other"]),
            importing("two", &["three"]),
            importing("three", &[]),
            importing("other", &[]),
        ]
    };
    for seen in ["one", "two", "three"] {
        assert!(built(using(seen)).is_ok(), "{seen}");
    }
    let error = error(using("other"));
    assert!(error.contains("'other'"), "{error}");
}

#[test]
fn imports_in_a_circle_end() {
    let pool = built(vec![importing("one", &["two"]), importing("two", &["one"]), importing("self", &["self"])]);
    assert_eq!(pool.expect("descriptors").files().len(), 3);
}

/// Without a bound, each layer doubles the time.
#[test]
fn imports_that_meet_again_take_no_longer() {
    let mut files = vec![importing("0a", &[]), importing("0b", &[])];
    for layer in 1..60 {
        let below = [format!("{}a", layer - 1), format!("{}b", layer - 1)];
        for side in ["a", "b"] {
            let mut file = importing(&format!("{layer}{side}"), &[&below[0], &below[1]]);
            file.public_dependency.push(1);
            files.push(file);
        }
    }
    assert!(built(files).is_ok());
}

/// On each of these, prost-reflect panics.
#[test]
fn refuses_what_no_compiler_writes() {
    let plain = |name: &str| File { name: Some(name.to_owned()), ..File::default() };
    let of = |message: Message| {
        vec![File { message_type: vec![Message { name: Some("M".to_owned()), ..message }], ..plain("a.proto") }]
    };
    let none = FeatureSet::default();
    let with_default = |default: &str| {
        let field = Field { default_value: Some(default.to_owned()), ..field(1, Label::Optional, Type::Bytes, none) };
        of(with(vec![field]))
    };
    let entry = |fields| {
        let options = bytes(&MessageOptions { map_entry: Some(true), ..MessageOptions::default() });
        of(Message { options, ..with(fields) })
    };
    let key = || field(1, Label::Optional, Type::Int32, none);
    let value = || field(2, Label::Optional, Type::Int32, none);
    let options = |field: Field| {
        vec![File {
            package: Some("google.protobuf".to_owned()),
            message_type: vec![Message { name: Some("FieldOptions".to_owned()), ..with(vec![field]) }],
            ..plain("descriptor.proto")
        }]
    };
    for (files, expected) in [
        (vec![File { syntax: Some("proto4".to_owned()), ..plain("a.proto") }], "a.proto: unknown syntax \"proto4\""),
        (with_default("\\x1é"), "a.proto: f1: the default value of bytes"),
        (with_default("\\777"), "a.proto: f1: the default value of bytes"),
        (entry(vec![]), "a.proto: M: the entry of a map"),
        (entry(vec![key()]), "a.proto: M: the entry of a map"),
        (entry(vec![Field { number: Some(3), ..key() }, value()]), "a.proto: M: the entry of a map"),
        (entry(vec![field(1, Label::Optional, Type::Double, none), value()]), "a.proto: M: the entry of a map"),
        (entry(vec![Field { type_name: Some(".M".to_owned()), ..key() }, value()]), "a.proto: M: the entry of a map"),
        (entry(vec![key(), field(2, Label::Repeated, Type::Int32, none)]), "a.proto: M: the entry of a map"),
        (
            options(Field { name: Some("packed".to_owned()), ..field(2, Label::Repeated, Type::Int32, none) }),
            "descriptor.proto: google.protobuf.FieldOptions.packed: not of the type",
        ),
    ] {
        let error = error(files);
        assert!(error.contains(expected), "{error}");
    }
    for default in ["", "plain", "\\001\\377\\\"\\\\", "\\x41\\n", "\\7"] {
        assert!(built(with_default(default)).is_ok(), "{default}");
    }
    assert!(built(entry(vec![key(), value()])).is_ok());
}

#[test]
fn refuses_two_extensions_with_one_number() {
    let none = FeatureSet::default();
    let extension = |name: &str| Field {
        name: Some(name.to_owned()),
        extendee: Some(".shop.M".to_owned()),
        ..field(100, Label::Optional, Type::Int32, none)
    };
    // From 100 to 199.
    let range = vec![prost::bytes::Bytes::from_static(b"\x08\x64\x10\xc8\x01")];
    let extended = |extensions| {
        let message = Message { extension_range: range.clone(), ..Message::default() };
        vec![File { extension: extensions, ..file(1000, none, message) }]
    };
    assert!(built(extended(vec![extension("one")])).is_ok());
    let error = error(extended(vec![extension("one"), extension("two")]));
    assert!(error.contains("shop.proto: shop.two: shop.M has two extensions with this number"), "{error}");
}

#[test]
fn an_empty_syntax_is_proto2() {
    let file = File {
        name: Some("a.proto".to_owned()),
        syntax: Some(String::new()),
        message_type: vec![Message {
            name: Some("M".to_owned()),
            ..with(vec![field(1, Label::Optional, Type::Int32, FeatureSet::default())])
        }],
        ..File::default()
    };
    let message = built(vec![file]).expect("descriptors").get_message_by_name("M").expect("a message");
    assert!(message.get_field(1).expect("a field").supports_presence());
}

/// Two sets, one after the other, are one.
#[test]
fn a_file_may_be_there_twice_if_it_is_the_same() {
    let of = |number| {
        let features = FeatureSet::default();
        file(1000, features, with(vec![field(number, Label::Optional, Type::Int32, features)]))
    };
    let encoded = |file: File| FileDescriptorSet { file: vec![file] }.encode_to_vec();
    let pool_of = |one: File, other: File| pool(&[encoded(one), encoded(other)].concat());
    assert_eq!(pool_of(of(1), of(1)).expect("descriptors").all_messages().count(), 1);
    let renamed = File { name: Some("other.proto".to_owned()), package: Some("other".to_owned()), ..of(2) };
    assert_eq!(pool_of(of(1), renamed).expect("descriptors").all_messages().count(), 2);
    let error = pool_of(of(1), of(2)).expect_err("two files of one name").to_string();
    assert!(error.starts_with("shop.proto: the descriptors have another file of this name"), "{error}");
}
