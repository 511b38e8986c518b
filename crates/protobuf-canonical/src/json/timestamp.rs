//! `google.protobuf.Timestamp` as text: RFC 3339, as Go reads it.

use super::duration::nanos;

/// The first second of the year 1, and the last of the year 9999.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Parses a text such as `2023-11-14T22:13:20.5Z` into seconds and nanoseconds since 1970; `None` if it is not a time
/// or is out of range.
pub(super) fn read(text: &str) -> Option<(i64, i32)> {
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    literal(&mut rest, '-')?;
    let month = number(&mut rest, 2)?;
    literal(&mut rest, '-')?;
    let day = number(&mut rest, 2)?;
    literal(&mut rest, 'T')?;
    // Go accepts an hour of one digit.
    let hour = number(&mut rest, 2).or_else(|| number(&mut rest, 1))?;
    literal(&mut rest, ':')?;
    let minute = number(&mut rest, 2)?;
    literal(&mut rest, ':')?;
    let second = number(&mut rest, 2)?;
    let nanos = match rest.strip_prefix(['.', ',']) {
        Some(fraction) => {
            let end = fraction.find(|digit: char| !digit.is_ascii_digit()).filter(|end| *end > 0)?;
            let (digits, zone) = fraction.split_at_checked(end)?;
            rest = zone;
            nanos(digits)?
        }
        None => 0,
    };
    let is_time = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(rest)?;
    (is_time && RANGE.contains(&seconds)).then_some((seconds, nanos))
}

/// Parses the offset of a time zone from UTC, in seconds. Go accepts up to 24 hours and 60 minutes, both included.
fn offset(zone: &str) -> Option<i64> {
    let (sign, mut rest) = match zone.strip_prefix('-') {
        _ if zone == "Z" => return Some(0),
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+')?),
    };
    let hours = number(&mut rest, 2)?;
    literal(&mut rest, ':')?;
    let minutes = number(&mut rest, 2)?;
    (rest.is_empty() && hours <= 24 && minutes <= 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Parses a number of `digits` digits at the start of the text and removes it.
fn number(rest: &mut &str, digits: usize) -> Option<i64> {
    let (number, behind) = rest.split_at_checked(digits)?;
    let number = number.bytes().all(|digit| digit.is_ascii_digit()).then(|| number.parse().ok())??;
    *rest = behind;
    Some(number)
}

fn literal(rest: &mut &str, expected: char) -> Option<()> {
    *rest = rest.strip_prefix(expected)?;
    Some(())
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar, in the year 0 or later.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let past: i64 = (1..month).map(|month| days_of(year, month)).sum();
    let leap_days = (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
    year * 365 + leap_days + past + day - 1 - 719_528
}
