//! The canonical form of JSON: that of RFC 8785, with exact integers.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::{Error, Write},
};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

type Result = std::io::Result<()>;

/// Writes a value in its canonical form. It has to be finite.
///
/// # Errors
///
/// It cannot be serialized, or an object has a name twice.
pub(super) fn encode(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Vec<u8>> {
    let mut encoded = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut encoded, Canonical::default()))?;
    Ok(encoded)
}

/// Sorts the members of objects, and writes each number in one way. Independent of the features of serde_json that others turn on.
#[derive(Default)]
struct Canonical {
    /// The objects that are open, by their names in UTF-16, which is the order of RFC 8785: each member's name and value.
    objects: Vec<BTreeMap<Vec<u16>, Vec<u8>>>,
    /// The names and values that are open in them.
    parts: Vec<Vec<u8>>,
    /// The names whose values follow.
    names: Vec<Vec<u8>>,
}

impl Canonical {
    /// The part that is being written: of the innermost object, or of the whole.
    fn part<'a, W: Write + ?Sized>(&'a mut self, whole: &'a mut W) -> Part<'a, W> {
        Part { part: self.parts.last_mut(), whole }
    }
}

/// A part of an object, or else the whole.
struct Part<'a, W: ?Sized> {
    part: Option<&'a mut Vec<u8>>,
    whole: &'a mut W,
}

impl<W: Write + ?Sized> Write for Part<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.part {
            Some(part) => part.write(bytes),
            None => self.whole.write(bytes),
        }
    }

    fn flush(&mut self) -> Result {
        Ok(())
    }
}

/// Methods that write an integer as its decimal digits.
macro_rules! integers {
    ($($method:ident($type:ty);)*) => {
        $(fn $method<W: Write + ?Sized>(&mut self, writer: &mut W, integer: $type) -> Result {
            write!(self.part(writer), "{integer}")
        })*
    };
}

/// Methods that write as without the sorting.
macro_rules! as_compact {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method<W: Write + ?Sized>(&mut self, writer: &mut W, $($name: $type),*) -> Result {
            CompactFormatter.$method(&mut self.part(writer), $($name),*)
        })*
    };
}

impl Formatter for Canonical {
    integers! {
        write_i8(i8);
        write_i16(i16);
        write_i32(i32);
        write_i64(i64);
        write_i128(i128);
        write_u8(u8);
        write_u16(u16);
        write_u32(u32);
        write_u64(u64);
        write_u128(u128);
    }

    as_compact! {
        write_null();
        write_bool(value: bool);
        begin_string();
        end_string();
        write_string_fragment(fragment: &str);
        write_char_escape(escape: CharEscape);
        begin_array();
        end_array();
        begin_array_value(first: bool);
    }

    fn write_f32<W: Write + ?Sized>(&mut self, writer: &mut W, number: f32) -> Result {
        self.write_f64(writer, number.into())
    }

    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, number: f64) -> Result {
        self.part(writer).write_all(ryu_js::Buffer::new().format(number).as_bytes())
    }

    /// Of a [`serde_json::Number`] with its feature `arbitrary_precision`: as without it.
    fn write_number_str<W: Write + ?Sized>(&mut self, writer: &mut W, number: &str) -> Result {
        match (number.parse(), number.parse(), number.parse()) {
            (Ok(integer), ..) => self.write_u64(writer, integer),
            (_, Ok(integer), _) => self.write_i64(writer, integer),
            (.., Ok(number)) if f64::is_finite(number) => self.write_f64(writer, number),
            _ => Err(Error::other(format!("{number} is beyond the numbers of JSON's readers"))),
        }
    }

    /// Of a [`serde_json::value::RawValue`].
    fn write_raw_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> Result {
        let value: serde_json::Value = serde_json::from_str(fragment)?;
        self.part(writer).write_all(&encode(&value)?)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, _writer: &mut W) -> Result {
        self.objects.push(BTreeMap::new());
        Ok(())
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, _writer: &mut W, _first: bool) -> Result {
        self.parts.push(Vec::new());
        Ok(())
    }

    fn end_object_key<W: Write + ?Sized>(&mut self, _writer: &mut W) -> Result {
        self.names.extend(self.parts.pop());
        Ok(())
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, _writer: &mut W) -> Result {
        self.parts.push(Vec::new());
        Ok(())
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _writer: &mut W) -> Result {
        let (Some(object), Some(mut member), Some(value)) =
            (self.objects.last_mut(), self.names.pop(), self.parts.pop())
        else {
            return Ok(());
        };
        let name: String = serde_json::from_slice(&member)?;
        member.push(b':');
        member.extend(value);
        match object.entry(name.encode_utf16().collect()) {
            Entry::Vacant(place) => drop(place.insert(member)),
            Entry::Occupied(_) => return Err(Error::other(format!("an object has the name {name:?} twice"))),
        }
        Ok(())
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> Result {
        let members: Vec<_> = self.objects.pop().unwrap_or_default().into_values().collect();
        let mut part = self.part(writer);
        part.write_all(b"{")?;
        part.write_all(&members.join(&b','))?;
        part.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::RawValue};

    use super::*;

    fn canonical(value: &(impl Serialize + ?Sized)) -> String {
        String::from_utf8(encode(value).expect("a canonical form")).expect("text")
    }

    /// The examples of RFC 8785, sections 3.2.2, 3.2.3 and appendix B.
    #[test]
    fn is_that_of_rfc_8785() {
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        for (text, expected) in [
            (
                "{\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001], \
                 \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\", \"literals\": [null, true, false]}",
                "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                 \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}",
            ),
            (
                "{\"\\u20ac\": 1, \"\\r\": 2, \"\\ufb33\": 3, \"1\": 4, \"\\ud83d\\ude00\": 5, \"\\u0080\": 6, \"\\u00f6\": {\"b\": [], \"a\": {}}}",
                "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":{\"a\":{},\"b\":[]},\"€\":1,\"😀\":5,\"\u{fb33}\":3}",
            ),
            ("[0, -0, -0.0, 5e-324, -1.7976931348623157e308]", "[0,0,0,5e-324,-1.7976931348623157e+308]"),
            ("[9007199254740992.0, 999999999999999868928e0, 1e21]", "[9007199254740992,999999999999999900000,1e+21]"),
        ] {
            assert_eq!(canonical(&read(text)), expected);
            let raw: &RawValue = serde_json::from_str(text).expect("JSON");
            assert_eq!(canonical(raw), expected);
        }
    }

    #[test]
    fn has_exact_integers() {
        let integers = [i128::MIN, -9_007_199_254_740_993, 9_007_199_254_740_993, u64::MAX.into()];
        let text = "[-170141183460469231731687303715884105728,-9007199254740993,9007199254740993,18446744073709551615]";
        assert_eq!(canonical(&integers), text);
        assert_eq!(
            canonical(&json!([-9_007_199_254_740_993_i64, u64::MAX])),
            "[-9007199254740993,18446744073709551615]"
        );
    }

    /// With `arbitrary_precision`, which another crate of a program may turn on, a number arrives as its text.
    #[test]
    fn of_a_numbers_text_is_that_of_the_number() {
        let written = |text| {
            let mut out = Vec::new();
            Canonical::default().write_number_str(&mut out, text).map(|()| String::from_utf8(out).expect("text"))
        };
        for text in ["1.50", "-0", "0.0", "1e2", "-9007199254740993", "18446744073709551615", "18446744073709551617"] {
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(written(text).expect(text), canonical(&value), "{text}");
        }
        assert!(written("1e400").is_err());
    }

    #[test]
    fn has_each_name_once() {
        struct Twice;
        impl Serialize for Twice {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.collect_map([("a", 1), ("a", 2)])
            }
        }
        assert!(encode(&Twice).expect_err("twice").to_string().contains("\"a\" twice"));
    }
}
