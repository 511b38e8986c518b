//! UTF-8 validation, fast for short strings.

/// Returns whether a string is valid UTF-8.
#[inline]
pub(super) fn is_utf8(bytes: &[u8]) -> bool {
    is_short_ascii(bytes) || simdutf8::basic::from_utf8(bytes).is_ok()
}

/// Returns whether this is ASCII of at most 16 bytes. Most names, ids and numbers are; two overlapping words of 4 or 8
/// bytes prove it in less time than a call of the general function takes.
#[inline]
fn is_short_ascii(bytes: &[u8]) -> bool {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk())
        && bytes.len() <= 16
    {
        const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
        return (u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last)) & HIGH_BITS == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk())
        && bytes.len() <= 8
    {
        const HIGH_BITS: u32 = 0x8080_8080;
        return (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)) & HIGH_BITS == 0;
    }
    bytes.len() < 4 && bytes.iter().all(u8::is_ascii)
}

#[cfg(test)]
mod tests {
    use std::str;

    use super::*;

    #[test]
    fn agrees_with_the_standard_library_on_any_length() {
        for length in 0..=40 {
            let ascii = vec![b'a'; length];
            assert!(is_utf8(&ascii), "{length} letters");
            for at in 0..length {
                for instead in [&b"\x80"[..], b"\xff", b"\xd0", "ж".as_bytes(), "語".as_bytes()] {
                    let text = [&ascii[..at], instead, &ascii[at + 1..]].concat();
                    assert_eq!(is_utf8(&text), str::from_utf8(&text).is_ok(), "{text:?}");
                }
            }
        }
    }
}
