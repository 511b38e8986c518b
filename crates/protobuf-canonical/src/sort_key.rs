//! The order of map keys.

use super::schema::Scalar;

/// A map key in a form that sorts fast: a number that decides most comparisons, then the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SortKey<'a> {
    pub(super) number: u64,
    pub(super) text: &'a [u8],
}

impl<'a> SortKey<'a> {
    /// Returns the sort key of a numeric map key with the encoding (varint or fixed) `raw`.
    #[inline]
    pub(super) fn of_number(scalar: Scalar, raw: u64) -> Self {
        Self { number: scalar.sort_key(raw), text: &[] }
    }

    #[inline]
    pub(super) fn of_text(text: &'a [u8]) -> Self {
        Self { number: first_bytes(text), text }
    }
}

/// Returns the first eight bytes, padded with zeros, as a number that sorts like them.
#[inline]
pub(super) fn first_bytes(text: &[u8]) -> u64 {
    if let Some(first) = text.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let missing = 8 * (8 - text.len());
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // The two chunks agree on the bytes in which they overlap.
        return u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << missing;
    }
    text.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)).checked_shl(missing as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_sort_bytewise() {
        let ascending: [&[u8]; 17] = [
            b"",
            b"\0",
            b"\0\0",
            b"\x01",
            b"a",
            b"a\0",
            b"ab",
            b"abc",
            b"abcd",
            b"abcde",
            b"abcdef",
            b"abcdefg",
            b"abcdefg\0",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefghi",
            b"\xff",
        ];
        for (index, a) in ascending.iter().enumerate() {
            for (other, b) in ascending.iter().enumerate() {
                assert_eq!(SortKey::of_text(a).cmp(&SortKey::of_text(b)), index.cmp(&other), "{a:?} {b:?}");
            }
        }
    }
}
