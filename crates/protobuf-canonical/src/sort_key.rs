use super::schema::Scalar;

/// The key of a map entry, as it sorts among the keys of its map: a number that decides most comparisons, then the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SortKey<'a> {
    number: u64,
    text: &'a [u8],
}

impl<'a> SortKey<'a> {
    /// Of a key of this type whose encoding (varint, or fixed) is `raw`.
    #[inline]
    pub(super) fn of_number(scalar: Scalar, raw: u64) -> Self {
        Self { number: scalar.sort_key(raw), text: &[] }
    }

    #[inline]
    pub(super) fn of_text(text: &'a [u8]) -> Self {
        Self { number: first_bytes(text), text }
    }
}

/// The first eight bytes as a number that sorts as they do, zeros for those that are missing.
#[inline]
fn first_bytes(text: &[u8]) -> u64 {
    if let Some(first) = text.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let missing = 8 * (8 - text.len());
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // Where the two overlap, they are the same.
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
