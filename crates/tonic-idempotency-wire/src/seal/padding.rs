//! The lengths that hide those of the text: Padmé, of *Reducing Metadata Leakage from Encrypted Files and Communication with PURBs*
//! (Nikitin et al., PETS 2019), section 4. A padded text is at most an eighth longer than the text, and its length tells
//! only about the logarithm of the text's.

/// The shortest padded text, in bytes.
const SHORTEST: usize = 128;

/// The byte after the text. Zeros follow.
const MARK: u8 = 0x80;

/// Pads the text that begins at `from`.
pub(super) fn pad(bytes: &mut Vec<u8>, from: usize) {
    bytes.push(MARK);
    let padded = padme((bytes.len() - from).max(SHORTEST));
    bytes.resize(from + padded, 0);
}

/// Returns the length of the text in these bytes; `None` if they are not padded.
pub(super) fn unpadded(bytes: &[u8]) -> Option<usize> {
    let mark = bytes.iter().rposition(|&byte| byte != 0)?;
    (bytes[mark] == MARK).then_some(mark)
}

/// Returns the padded length for this one, which is not zero.
pub(super) fn padme(length: usize) -> usize {
    let exponent = length.ilog2();
    let kept = exponent.checked_ilog2().map_or(0, |log| log + 1);
    let mask = (1 << exponent.saturating_sub(kept)) - 1;
    (length + mask) & !mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_paper() {
        // Section 4: L = 9 becomes 10. The others were computed by hand from its algorithm.
        for (length, padded) in [(1, 1), (9, 10), (128, 128), (129, 144), (1000, 1024), (1024, 1024), (1025, 1088)] {
            assert_eq!(padme(length), padded, "{length}");
        }
        for length in 128..100_000 {
            let padded = padme(length);
            assert!(padded >= length && (padded - length) * 8 < length && padme(padded) == padded, "{length}");
        }
    }

    #[test]
    fn the_text_is_found_again() {
        for text in [&b""[..], b"\x80", b"\x00", b"\x80\x00\x00", &[7; 127], &[0; 128], &[0x80; 5000]] {
            let mut bytes = [b"head", text].concat();
            pad(&mut bytes, 4);
            assert!(bytes.len() >= 4 + SHORTEST);
            assert_eq!(unpadded(&bytes[4..]), Some(text.len()));
        }
        assert_eq!(unpadded(&[0; 128]), None);
        assert_eq!(unpadded(&[1, 0, 0]), None);
    }
}
