//! The syntax of the header: keys bare or as RFC 8941 strings, joined by commas as some proxies do.

use std::{borrow::Cow, mem};

use super::InvalidKey;

/// The keys in a value of the header, in turn. A value without any text has one key, which is empty.
pub(super) struct Keys<'a> {
    /// `None` after the last one.
    rest: Option<&'a [u8]>,
}

impl<'a> Keys<'a> {
    pub(super) fn of(value: &'a [u8]) -> Self {
        Self { rest: Some(value) }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<Cow<'a, [u8]>, InvalidKey>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = mem::take(&mut self.rest)?.trim_ascii_start();
        Some(match value.strip_prefix(b"\"") {
            Some(string) => unquote(string).and_then(|(key, rest)| {
                self.rest = after_parameters(rest)?;
                Ok(key)
            }),
            None => {
                let mut parts = value.splitn(2, |byte| *byte == b',');
                let key = parts.next().unwrap_or_default().trim_ascii_end();
                self.rest = parts.next();
                if key.contains(&b'"') || key.contains(&b';') { Err(InvalidKey::NotQuoted) } else { Ok(key.into()) }
            }
        })
    }
}

/// Returns the content of a string that begins after its opening quote, and what follows the string.
fn unquote(string: &[u8]) -> Result<(Cow<'_, [u8]>, &[u8]), InvalidKey> {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\');
    let end = string.iter().position(special).ok_or(InvalidKey::NotAString)?;
    if string[end] == b'"' {
        return Ok((string[..end].into(), &string[end + 1..]));
    }
    let mut content = string[..end].to_vec();
    let mut rest = &string[end..];
    loop {
        match rest {
            [b'"', after @ ..] => return Ok((content.into(), after)),
            [b'\\', byte @ (b'"' | b'\\'), after @ ..] => {
                content.push(*byte);
                rest = after;
            }
            [b'\\', ..] | [] => return Err(InvalidKey::NotAString),
            [byte, after @ ..] => {
                content.push(*byte);
                rest = after;
            }
        }
    }
}

/// Returns what follows the parameters after a string, which are ignored, as none are defined: the next value after a
/// comma; `None` at the end.
fn after_parameters(rest: &[u8]) -> Result<Option<&[u8]>, InvalidKey> {
    let mut rest = rest.trim_ascii_start();
    if !matches!(rest.first(), None | Some(b',' | b';')) {
        return Err(InvalidKey::NotAString);
    }
    loop {
        match rest {
            [] => return Ok(None),
            [b',', rest @ ..] => return Ok(Some(rest)),
            [b'"', string @ ..] => (_, rest) = unquote(string)?,
            [_, after @ ..] => rest = after,
        }
    }
}
