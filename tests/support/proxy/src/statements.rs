//! The statements that clients have the server execute.

use std::collections::HashMap;

/// The statements that were prepared on a connection to PostgreSQL.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// Their texts by their names.
    prepared: HashMap<Vec<u8>, Vec<u8>>,
}

impl Statements {
    /// The texts of the statements that the server executes because of these bytes, which begin with a message.
    pub(crate) fn executed(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut executed = Vec::new();
        let mut rest = bytes;
        while let Some((kind, body, next)) = message(rest) {
            let mut texts = body.split(|byte| *byte == 0);
            match (kind, texts.next(), texts.next()) {
                // Parse: a name, and a text. The nameless one is executed at once.
                (b'P', Some([]), Some(text)) => executed.push(text.to_vec()),
                (b'P', Some(name), Some(text)) => {
                    self.prepared.insert(name.to_vec(), text.to_vec());
                }
                // Bind: the name of a portal, and that of a statement.
                (b'B', Some(_), Some(name)) => executed.extend(self.prepared.get(name).cloned()),
                // Query: a text.
                (b'Q', Some(text), _) => executed.push(text.to_vec()),
                _ => {}
            }
            rest = next;
        }
        executed
    }
}

/// The kind and the content of the first message, as far as it is there, and what follows; `None` if there is none.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, a, b, c, d], rest) = bytes.split_first_chunk()?;
    let length = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4)?;
    let (body, next) = rest.split_at(length.min(rest.len()));
    Some((kind, body, next))
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a length").to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    #[test]
    fn are_executed_when_they_are_bound_and_not_when_they_are_prepared() {
        let mut statements = Statements::default();
        let prepare = [message(b'P', b"s1\0SELECT 1\0\0\0"), message(b'D', b"Ss1\0"), message(b'S', b"")].concat();
        assert!(statements.executed(&prepare).is_empty());
        let bind = [message(b'B', b"\0s1\0\0\0\0\0\0\0"), message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat();
        assert_eq!(statements.executed(&bind), [b"SELECT 1"]);
        assert!(statements.executed(&message(b'B', b"\0s2\0\0\0\0\0\0\0")).is_empty());
    }

    #[test]
    fn are_executed_at_once_if_they_have_no_name() {
        let mut statements = Statements::default();
        let both = [message(b'P', b"\0SELECT 1\0\0\0"), message(b'B', b"\0\0\0\0\0\0\0\0")].concat();
        assert_eq!(statements.executed(&both), [b"SELECT 1"]);
        assert_eq!(statements.executed(&message(b'Q', b"SELECT 2\0")), [b"SELECT 2"]);
    }

    #[test]
    fn are_none_in_other_bytes() {
        let mut statements = Statements::default();
        for bytes in [&b""[..], b"P", b"PPPP", b"P\0\0\0\0", b"Q\xff\xff\xff\xff", b"x\0\0\0\x04"] {
            assert!(statements.executed(bytes).iter().all(Vec::is_empty), "{bytes:?}");
        }
    }
}
