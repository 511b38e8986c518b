//! The versions of new migrations: after those of the application, in its own numbering.

use std::time::{Duration, SystemTime};

use super::{Error, folder::Folder, format::Format};

/// The digits of a time in seconds: 20260102030405.
const TIME: usize = 14;

/// The digits of a time as diesel's program writes it, with four more to count.
const DIESEL_TIME: usize = 18;

/// Returns the versions of this number of new migrations: from `first` on, or else after the newest one of the folder.
///
/// | the newest in the folder | the first new one |
/// |---|---|
/// | has 14 digits or more: it is a time | the time, or the number after the newest if that is later |
/// | any other | the number after it, with as many digits |
/// | there is none | the time, or 1 |
pub(super) fn after(
    folder: &Folder,
    first: Option<&str>,
    number: usize,
    now: SystemTime,
) -> Result<Vec<String>, Error> {
    let newest = folder.versions().filter_map(leading).max();
    let (first, width) = match (first, newest) {
        (Some(given), _) => (given.parse().unwrap_or(u64::MAX), given.len()),
        (None, Some((newest, width))) if width >= TIME => (time(now, width).max(next(newest, width)), width),
        (None, Some((newest, width))) => (newest + 1, width),
        (None, None) if !folder.format().counts_time() => (1, 1),
        (None, None) => {
            let width = if folder.format() == Format::Diesel { DIESEL_TIME } else { TIME };
            (time(now, width), width)
        }
    };
    let versions = std::iter::successors(Some(first), |version| Some(next(*version, width)));
    let versions: Vec<_> = versions.take(number).map(|version| format!("{version:0width$}")).collect();
    for version in &versions {
        let most = folder.format().most();
        if version.parse::<u64>().is_ok_and(|number| number > most) {
            return Err(Error::TooLarge { format: folder.format(), most, version: version.clone() });
        }
        // Diesel compares versions as texts.
        if folder.format() == Format::Diesel && version.len() > width {
            return Err(Error::Digits { version: version.clone() });
        }
        if folder.versions().filter_map(leading).any(|(taken, _)| Ok(taken) == version.parse()) {
            return Err(Error::Taken { version: version.clone() });
        }
    }
    Ok(versions)
}

/// Returns the version after this one: a second later if it is a time, as the clock has no second 60.
fn next(version: u64, width: usize) -> u64 {
    let text = format!("{version:0width$}");
    let moment = (width == TIME).then(|| {
        let [year, month, day, hour, minute, second] = [(0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14)]
            .map(|(from, to)| text.get(from..to).unwrap_or_default());
        humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
    });
    match moment {
        Some(Ok(at)) => time(at + Duration::from_secs(1), TIME),
        _ => version.saturating_add(1),
    }
}

/// Returns the first number of a version, and the number of its digits.
fn leading(version: &str) -> Option<(u64, usize)> {
    let digits = version.split(|character: char| !character.is_ascii_digit()).next()?;
    Some((digits.parse().ok()?, digits.len()))
}

/// Returns a time in UTC as a number with `width` digits: the year, the month, the day, the hour, the minute, the second, zeros.
fn time(now: SystemTime, width: usize) -> u64 {
    let text = humantime::format_rfc3339_seconds(now).to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    format!("{digits:0<width$}").parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn that_are_times_have_no_second_that_a_clock_has_not() {
        assert_eq!(next(20_260_102_030_459, TIME), 20_260_102_030_500);
        assert_eq!(next(20_261_231_235_959, TIME), 20_270_101_000_000);
        // No time, one of another width, and a number.
        assert_eq!(next(20_269_999_999_999, TIME), 20_270_000_000_000);
        assert_eq!(next(202_601_020_304_590_000, DIESEL_TIME), 202_601_020_304_590_001);
        assert_eq!(next(59, 2), 60);
    }

    #[test]
    fn are_the_time_in_utc() {
        let now = UNIX_EPOCH + Duration::from_secs(1_767_323_045);
        assert_eq!(time(now, TIME), 20_260_102_030_405);
        assert_eq!(time(now, DIESEL_TIME), 202_601_020_304_050_000);
    }
}
