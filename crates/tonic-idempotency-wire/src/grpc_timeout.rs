//! The header `grpc-timeout`.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Parses `grpc-timeout`: at most eight digits and a unit, as
/// [gRPC has it](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#requests). `None` if it is missing or invalid.
pub fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    // No sign, which `parse` would accept. Eight digits of hours do not overflow.
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn parse(value: &[u8]) -> Option<Duration> {
        let value = HeaderValue::from_bytes(value).expect("a value");
        grpc_timeout(&[(GRPC_TIMEOUT, value)].into_iter().collect())
    }

    #[test]
    fn is_at_most_eight_digits_and_a_unit() {
        for (value, expected) in [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("42S", Duration::from_secs(42)),
            ("250m", Duration::from_millis(250)),
            ("1u", Duration::from_micros(1)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("99999999H", Duration::from_secs(359_999_996_400)),
            ("00000000S", Duration::ZERO),
        ] {
            assert_eq!(parse(value.as_bytes()), Some(expected), "{value:?}");
        }
    }

    #[test]
    fn is_nothing_else() {
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
        for value in [
            "",
            "1",
            "S",
            "123456789S",
            "000000001S",
            "+1S",
            "-1S",
            "+S",
            "1.5S",
            "0x1S",
            "1e1S",
            "1_0S",
            "1s",
            "1h",
            "1N",
            "1x",
            "1ms",
            " 1S",
            "1 S",
            "1S ",
            "1\tS",
            "1S,2S",
            "٣S",
        ] {
            assert_eq!(parse(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(parse(b"1\xb5"), None, "no text");
    }
}
