//! Integers in JSON's number syntax, parsed exactly and not through floats.

/// The maximum number of digits of a 64-bit integer.
const MAX_DIGITS: usize = 20;

/// Returns the text if it is a number in JSON's syntax.
pub(super) fn checked(text: &str) -> Result<&str, String> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let is_number = is_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits)
        && exponent.is_none_or(is_digits);
    is_number.then_some(text).ok_or_else(|| format!("{text:?} is not a number"))
}

/// Parses an integer, `1.0` and `1e3` included; an error if it is not an integer or has more than 20 digits.
pub(super) fn exact(text: &str) -> Result<i128, String> {
    let text = checked(text)?;
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, text),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let out_of_range = || format!("{text} is out of range");
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let exponent: i64 = exponent.parse().map_err(|_| out_of_range())?;
    let places = i64::try_from(whole.trim_start_matches('0').len()).unwrap_or(i64::MAX);
    if exponent > 0 && places.saturating_add(exponent) > MAX_DIGITS as i64 {
        return Err(out_of_range());
    }
    let shift = [trailing, fraction.len()].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
    let zeros = exponent.saturating_add(shift[0]).saturating_sub(shift[1]);
    let Ok(zeros) = usize::try_from(zeros) else { return Err(format!("{text} is not an integer")) };
    if significant.len().saturating_add(zeros) > MAX_DIGITS {
        return Err(out_of_range());
    }
    let value: i128 = format!("{significant}{}", "0".repeat(zeros)).parse().map_err(|_| out_of_range())?;
    Ok(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_spelling_exactly() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("0.000e99999", 0),
            ("1", 1),
            ("-1.0", -1),
            ("1e3", 1000),
            ("1.5E1", 15),
            ("1500e-2", 15),
            ("10.00", 10),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("18446744073709551615", u64::MAX.into()),
            ("1.8446744073709551615e+19", u64::MAX.into()),
            ("-9223372036854775808", i64::MIN.into()),
        ] {
            assert_eq!(exact(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_text_that_is_not_an_integer() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "1.",
            ".1",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "0x1",
            "1_0",
            "NaN",
            "Infinity",
            "1.5",
            "1e-1",
            "--1",
            "1e99999999999999999999",
            "123456789012345678901",
            "1e20",
            "0.000000000000000000001e21",
            "1.2.3",
            "1e2e3",
            "\u{661}",
        ] {
            assert!(exact(text).is_err(), "{text:?}");
        }
    }
}
