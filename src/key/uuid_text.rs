//! UUIDs as texts.

use uuid::Uuid;

const URN: &str = "urn:uuid:";

/// Reads a UUID in one of its forms: with hyphens, without, in braces, or as a URN, in lower or upper case; `None` if it is none.
///
/// Whether the prefix of a URN may be in upper case depends on the version of the crate `uuid`. The identity of a key must not: servers that were built
/// with different versions have the same keys.
pub(super) fn uuid_of(text: &str) -> Option<Uuid> {
    let of_urn = text.split_at_checked(URN.len()).filter(|(prefix, _)| prefix.eq_ignore_ascii_case(URN));
    match of_urn {
        Some((_, rest)) if rest.len() == 36 => Uuid::try_parse(rest).ok(),
        _ => Uuid::try_parse(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn have_the_same_forms_with_each_version_of_the_crate() {
        let id = "8e03978e-40d5-43dd-bc93-6894a57f9324";
        let uuid = Uuid::try_parse(id).ok();
        assert!(uuid.is_some());
        let simple = id.replace('-', "");
        for text in [id.to_owned(), simple.clone(), format!("{{{id}}}"), format!("{URN}{id}")] {
            assert_eq!(uuid_of(&text), uuid, "{text}");
            assert_eq!(uuid_of(&text.to_uppercase()), uuid, "{text}");
        }
        for text in [
            &format!("{URN}{simple}"),
            &format!("{URN}{{{id}}}"),
            &format!("{{{simple}}}"),
            &format!("{id}0"),
            URN,
            "ürn:uuid:",
            "",
        ] {
            assert_eq!(uuid_of(text), None, "{text}");
        }
    }
}
