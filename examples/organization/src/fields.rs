//! Validation of request fields. Errors carry a `google.rpc.BadRequest` that names the field.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use uuid::Uuid;

/// The maximum length of a text, in characters.
const LONGEST: usize = 200;

/// The maximum number of labels.
const MOST_LABELS: usize = 64;

pub(crate) fn uuid(field: &str, value: &str) -> Result<Uuid, Status> {
    Uuid::try_parse(value).map_err(|_| violation(field, "must be a UUID"))
}

/// Checks a text: not blank, at most [`LONGEST`] characters, no control characters.
pub(crate) fn text<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    if value.trim().is_empty() {
        return Err(violation(field, "must not be empty"));
    }
    if value.chars().count() > LONGEST {
        return Err(violation(field, &format!("must be at most {LONGEST} characters long")));
    }
    if value.contains(char::is_control) {
        return Err(violation(field, "must not contain control characters"));
    }
    Ok(value)
}

/// Checks an id that its owner has chosen: 1–255 visible ASCII characters, as an idempotency key has.
pub(crate) fn own_id<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    match value.len() {
        1..=255 if value.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(value),
        _ => Err(violation(field, "must be 1 to 255 visible ASCII characters")),
    }
}

pub(crate) fn optional_text<'a>(field: &str, value: Option<&'a str>) -> Result<Option<&'a str>, Status> {
    value.map(|value| text(field, value)).transpose()
}

pub(crate) fn email<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    match text(field, value)?.split_once('@') {
        Some((name, domain)) if !name.is_empty() && !domain.is_empty() => Ok(value),
        _ => Err(violation(field, "must be an email address")),
    }
}

pub(crate) fn role<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    match value {
        "admin" | "viewer" => Ok(value),
        _ => Err(violation(field, "must be `admin` or `viewer`")),
    }
}

pub(crate) fn positive(field: &str, value: i32) -> Result<i32, Status> {
    if value > 0 { Ok(value) } else { Err(violation(field, "must be at least 1")) }
}

pub(crate) fn labels<'a>(
    field: &str,
    value: &'a HashMap<String, String>,
) -> Result<&'a HashMap<String, String>, Status> {
    if value.len() > MOST_LABELS {
        return Err(violation(field, &format!("must have at most {MOST_LABELS} labels")));
    }
    for (key, value) in value {
        text(&format!("{field}.key"), key)?;
        if !value.is_empty() {
            text(&format!("{field}.value"), value)?;
        }
    }
    Ok(value)
}

fn violation(field: &str, description: &str) -> Status {
    Status::with_error_details(
        Code::InvalidArgument,
        format!("{field} {description}"),
        ErrorDetails::with_bad_request_violation(field, description),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_values() {
        assert!(uuid("id", "018f3f7e-7a9b-7c33-8a55-0123456789ab").is_ok());
        assert_eq!(text("name", "größe").expect("a text"), "größe");
        assert_eq!(optional_text("alias", None).expect("no text"), None);
        assert_eq!(own_id("id", "rack4-17").expect("an id"), "rack4-17");
        assert!(email("email", "fail-carol@example.com").is_ok());
        assert!(role("role", "viewer").is_ok());
        assert!(positive("nodes", 1).is_ok());
        assert!(labels("labels", &HashMap::from([("tier".to_owned(), String::new())])).is_ok());
    }

    #[test]
    fn refuses_invalid_values_and_names_the_field() {
        let nul = HashMap::from([("a".to_owned(), "\0".to_owned())]);
        let many = (0..=MOST_LABELS).map(|n| (n.to_string(), String::new())).collect();
        for (field, refused) in [
            ("id", uuid("id", "").err()),
            ("id", uuid("id", "42").err()),
            ("name", text("name", " ").err()),
            ("name", text("name", "a\0b").err()),
            ("name", text("name", &"x".repeat(LONGEST + 1)).err()),
            ("alias", optional_text("alias", Some("")).err()),
            ("id", own_id("id", "").err()),
            ("id", own_id("id", "rack 4").err()),
            ("id", own_id("id", &"x".repeat(256)).err()),
            ("email", email("email", "carol").err()),
            ("email", email("email", "@example.com").err()),
            ("role", role("role", "owner").err()),
            ("nodes", positive("nodes", 0).err()),
            ("labels", labels("labels", &many).err()),
            ("labels.value", labels("labels", &nul).err()),
        ] {
            let status = refused.expect("refused");
            assert_eq!(status.code(), Code::InvalidArgument);
            let details = status.get_error_details();
            let violations = &details.bad_request().expect("a BadRequest").field_violations;
            assert_eq!(violations[0].field, field, "{}", status.message());
        }
    }
}
