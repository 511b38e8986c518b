//! Texts with variables of the environment: expanded for the calls, and as they were written in all that is printed.

use std::{cmp::Reverse, env};

use http::{HeaderName, HeaderValue};

use crate::failure::Failure;

/// A text of a user's header that is shorter is no secret, and hiding it would garble reports.
const SHORTEST: usize = 4;

/// The sign for a secret that was not written as a variable.
const HIDDEN: &str = "…";

/// Texts that must not be printed, each with what is printed instead.
#[derive(Debug, Default)]
pub(super) struct Secrets(Vec<(String, String)>);

/// A header of the user's.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    /// As it is printed: with variables, or without its value.
    pub(super) written: String,
}

impl Secrets {
    /// Replaces each `${NAME}` by the variable's value.
    pub(super) fn expand(&mut self, text: &str) -> Result<String, Failure> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, name)) = rest.split_once("${") {
            let (name, after) = name.split_once('}').ok_or_else(|| Failure::Input("a ${ without its }".to_owned()))?;
            let value = env::var(name).map_err(|_| Failure::Input(format!("the variable {name} is not set")))?;
            expanded.push_str(before);
            expanded.push_str(&value);
            self.0.push((value, format!("${{{name}}}")));
            rest = after;
        }
        Ok(expanded + rest)
    }

    pub(super) fn header(&mut self, text: &str) -> Result<Header, Failure> {
        let invalid = || Failure::Input(format!("{}: no header, such as 'x-tenant: acme'", name_of(text)));
        let (name, written) = text.split_once(':').ok_or_else(invalid)?;
        let value = self.expand(written.trim())?;
        if !written.contains("${") {
            self.0.extend(value.split_whitespace().map(|word| (word.to_owned(), HIDDEN.to_owned())));
        }
        let shown = if written.contains("${") { written.trim() } else { HIDDEN };
        let written = format!("{}: {shown}", name.trim());
        let name = name.trim().parse().map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        Ok(Header { name, value, written })
    }

    /// Returns a text without the secrets that it repeats.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut secrets: Vec<_> = self.0.iter().filter(|(secret, _)| secret.len() >= SHORTEST).collect();
        // One may be a part of another.
        secrets.sort_by_key(|(secret, _)| Reverse(secret.len()));
        secrets.into_iter().fold(text.to_owned(), |text, (secret, shown)| text.replace(secret, shown))
    }
}

/// The part of a header that may be printed.
fn name_of(text: &str) -> &str {
    text.split_once(':').map_or("a header without a colon", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_shown_as_it_was_written() {
        let mut secrets = Secrets::default();
        let path = env::var("PATH").expect("a path");
        let header = secrets.header("authorization: Bearer ${PATH}").expect("a header");
        assert_eq!(header.written, "authorization: Bearer ${PATH}");
        assert_eq!(header.value.to_str().expect("text"), format!("Bearer {path}"));
        assert_eq!(secrets.hide(&format!("unknown: {path}!")), "unknown: ${PATH}!");
        let literal = secrets.header("authorization: Bearer swordfish").expect("a header");
        assert_eq!(literal.written, "authorization: …");
        assert_eq!(secrets.hide("no user swordfish"), "no user …");
        secrets.header("x-other: sword").expect("a header");
        assert_eq!(secrets.hide("no swordfish, no sword"), "no …, no …");
    }

    #[test]
    fn a_bad_header_is_not_repeated() {
        for text in ["Bearer swordfish", "a b: swordfish", "a: sword\nfish", "a: ${swordfish", "a: ${NOT_THERE}"] {
            let error = Secrets::default().header(text).expect_err(text).to_string();
            assert!(!error.contains("fish"), "{error}");
        }
    }
}
