//! Durations of protobuf.

use std::time::Duration;

/// Converts a duration; `None` if it is negative or invalid. (The conversion of `prost_types` overflows on the smallest one.)
pub(crate) fn from_proto(duration: prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(duration.seconds).ok()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_matrix() {
        for (seconds, nanos, expected) in [
            (0, 0, Some(Duration::ZERO)),
            (1, 999_999_999, Some(Duration::new(1, 999_999_999))),
            (i64::MAX, 0, Some(Duration::from_secs(u64::MAX / 2))),
            (-1, 0, None),
            (0, -1, None),
            (1, -1, None),
            (0, 1_000_000_000, None),
            (0, i32::MAX, None),
            (i64::MIN, 0, None),
            (i64::MIN, i32::MIN, None),
        ] {
            assert_eq!(from_proto(prost_types::Duration { seconds, nanos }), expected, "{seconds} {nanos}");
        }
    }
}
