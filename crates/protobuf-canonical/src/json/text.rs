//! A reader of JSON text, token by token.
//!
//! serde_json describes a value in a way that depends on its features, which any crate in a build may switch on: with
//! `arbitrary_precision`, a number becomes a map. So what depends on the value is read from its text.

use std::borrow::Cow;

/// Reads JSON text from its start. Malformed text is an error, or is read as some other token: serde_json has checked the text
/// before.
pub(super) struct Text<'a> {
    rest: &'a str,
}

impl<'a> Text<'a> {
    pub(super) fn new(json: &'a str) -> Self {
        Self { rest: json }
    }

    /// Returns the first byte of the next token.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest.as_bytes().first().copied()
    }

    /// Skips the next token if it is this byte; returns whether it was.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    /// Returns the text that is not read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Reads a string.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, String> {
        if self.peek() != Some(b'"') {
            return Err("expected a string".to_owned());
        }
        let mut end = 1;
        loop {
            match self.rest.as_bytes().get(end) {
                None => return Err("a string without an end".to_owned()),
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        let Some((token, rest)) = self.rest.split_at_checked(end + 1) else {
            return Err("a string without an end".to_owned());
        };
        self.rest = rest;
        let content = &token[1..token.len() - 1];
        if !content.contains('\\') {
            return Ok(content.into());
        }
        serde_json::from_str::<String>(token).map(Cow::Owned).map_err(|error| error.to_string())
    }

    /// Reads a number, `true`, `false` or `null`, as it is written.
    pub(super) fn word(&mut self) -> &'a str {
        self.peek();
        let end = self.rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}
