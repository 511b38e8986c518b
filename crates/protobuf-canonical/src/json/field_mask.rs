//! `google.protobuf.FieldMask` as text.

/// Parses a text such as `name,createTime.nanos` into paths, spelled as in a .proto file; `None` if it is not a field
/// mask.
pub(super) fn read(text: &str) -> Option<Vec<String>> {
    match text.trim() {
        "" => Some(Vec::new()),
        paths => paths.split(',').map(path).collect(),
    }
}

fn path(json: &str) -> Option<String> {
    let mut path = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii_uppercase() {
            path.push('_');
        }
        path.push(letter.to_ascii_lowercase());
    }
    let is_name = |name: &str| {
        !name.starts_with(|first: char| first.is_ascii_digit())
            && !name.is_empty()
            && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
    };
    (!json.contains('_') && path.split('.').all(is_name)).then_some(path)
}
