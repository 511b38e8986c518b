//! `google.protobuf.Duration` as text.

/// The maximum in seconds: about ten thousand years.
const MAX: i64 = 315_576_000_000;

/// Parses a text such as `-1.5s` into seconds and nanoseconds; `None` if it is not a duration or is out of range.
pub(super) fn read(text: &str) -> Option<(i64, i32)> {
    let text = text.strip_suffix('s')?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = match unsigned.split_once('.') {
        Some(("", fraction)) => ("0", fraction),
        Some(parts) => parts,
        None => (unsigned, ""),
    };
    let is_whole = whole.bytes().all(|digit| digit.is_ascii_digit()) && (whole == "0" || !whole.starts_with('0'));
    let seconds: i64 = whole.parse().ok().filter(|seconds| is_whole && *seconds <= MAX)?;
    Some((i64::from(sign) * seconds, sign * nanos(fraction)?))
}

/// Parses the digits of a fraction of a second into nanoseconds; `None` for more than nine digits.
pub(super) fn nanos(digits: &str) -> Option<i32> {
    if digits.len() > 9 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}
