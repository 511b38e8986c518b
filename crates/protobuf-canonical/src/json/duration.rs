//! `google.protobuf.Duration` as text.

/// In seconds, about ten thousand years.
const MAX: i64 = 315_576_000_000;

/// Seconds and nanoseconds of a text such as `-1.5s`; none where it is no duration, or is out of range.
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

/// The nanoseconds of a fraction of a second: at most nine digits.
pub(super) fn nanos(digits: &str) -> Option<i32> {
    if digits.len() > 9 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}
