//! Times as a person says them: the two largest units.

use std::time::Duration;

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// Returns a length of time, such as `2h 14m`. A negative one is none.
pub(crate) fn duration(seconds: f64) -> String {
    let exact = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX).as_secs();
    let unit = match exact {
        0..MINUTE => 1,
        MINUTE..DAY => MINUTE,
        _ => 60 * MINUTE,
    };
    humantime::format_duration(Duration::from_secs(exact / unit * unit)).to_string()
}

pub(crate) fn ago(seconds: f64) -> String {
    format!("{} ago", duration(seconds))
}

pub(crate) fn ahead(seconds: f64) -> String {
    format!("in {}", duration(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn have_the_two_largest_units() {
        for (seconds, expected) in [
            (-1.0, "0s"),
            (0.4, "0s"),
            (59.9, "59s"),
            (61.0, "1m"),
            (8075.0, "2h 14m"),
            (90_061.0, "1day 1h"),
            (1e30, &*humantime::format_duration(Duration::from_secs(u64::MAX / 3600 * 3600)).to_string()),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
