//! Statements with literals in place of their parameters.
//!
//! They are for a pool without a cache of statements: its pooler gives each transaction another server. sqlx sends a statement with
//! parameters in two parts. The second part may reach another server than the first, and find the statement of another client there.
//! Inside of a transaction, both parts reach the same server.

use std::fmt::{self, Write as _};

use tonic_idempotency::store::driver::{Statement, Value};

/// Returns the text of the statement, without its comments.
pub(crate) fn with_literals(statement: Statement<'_>) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(statement.sql.len());
    let mut rest = statement.sql;
    while let Some(at) = rest.find(['\'', '-', '$']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("--") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted.find('\'').map_or(rest.len(), |end| end + 2);
            text.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            let digits = rest[1..].find(|next: char| !next.is_ascii_digit()).map_or(rest.len(), |end| end + 1);
            match rest[1..digits].parse::<usize>().ok().filter(|_| rest.starts_with('$')) {
                Some(number) => {
                    write_literal(&mut text, number.checked_sub(1).and_then(|index| statement.parameters.get(index)))?
                }
                None => text.push_str(&rest[..digits]),
            }
            rest = &rest[digits..];
        }
    }
    text.push_str(rest);
    Ok(text)
}

/// Writes a value with its type.
fn write_literal(text: &mut String, value: Option<&Value<'_>>) -> fmt::Result {
    let value = value.ok_or(fmt::Error)?;
    text.push('(');
    match *value {
        Value::BigInt(Some(value)) => write!(text, "'{value}'")?,
        Value::Bool(Some(value)) => write!(text, "{value}")?,
        Value::Bytes(Some(value)) => write_bytes(text, value)?,
        Value::Double(Some(value)) => write!(text, "'{value}'")?,
        Value::Int(Some(value)) => write!(text, "'{value}'")?,
        Value::Text(Some(value)) => write_text(text, value)?,
        Value::Bools(values) => write_array(text, values, |text, value| write!(text, "{value}"))?,
        Value::Doubles(values) => write_array(text, values, |text, value| write!(text, "'{value}'"))?,
        Value::OptionalBytes(values) => write_array(text, values, |text, value| match value {
            Some(value) => write_bytes(text, value),
            None => text.write_str("NULL"),
        })?,
        Value::OptionalTexts(values) => write_array(text, values, |text, value| match value {
            Some(value) => write_text(text, value),
            None => text.write_str("NULL"),
        })?,
        Value::OptionalUuids(values) => write_array(text, values, |text, value| match value {
            Some(value) => write!(text, "'{value}'"),
            None => text.write_str("NULL"),
        })?,
        Value::Texts(Some(values)) => write_array(text, values, |text, value| write_text(text, value))?,
        Value::Uuid(Some(value)) => write!(text, "'{value}'")?,
        Value::Uuids(values) => write_array(text, values, |text, value| write!(text, "'{value}'"))?,
        _ => text.push_str("NULL"),
    }
    write!(text, ")::pg_catalog.{}", type_name(value).ok_or(fmt::Error)?)
}

/// The name of a type in the schema `pg_catalog`.
fn type_name(value: &Value<'_>) -> Option<&'static str> {
    Some(match value {
        Value::BigInt(_) => "int8",
        Value::Bool(_) => "bool",
        Value::Bools(_) => "bool[]",
        Value::Bytes(_) => "bytea",
        Value::Double(_) => "float8",
        Value::Doubles(_) => "float8[]",
        Value::Int(_) => "int4",
        Value::OptionalBytes(_) => "bytea[]",
        Value::OptionalTexts(_) | Value::Texts(_) => "text[]",
        Value::OptionalUuids(_) | Value::Uuids(_) => "uuid[]",
        Value::Text(_) => "text",
        Value::Uuid(_) => "uuid",
        _ => return None,
    })
}

fn write_array<T>(
    text: &mut String,
    values: &[T],
    write_value: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    text.push_str("ARRAY[");
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write_value(text, value)?;
    }
    text.push(']');
    Ok(())
}

/// Writes a text with escapes. They mean the same with every setting of `standard_conforming_strings` and `backslash_quote`.
fn write_text(text: &mut String, value: &str) -> fmt::Result {
    text.push_str("E'");
    for character in value.chars() {
        if matches!(character, '\'' | '\\') {
            text.push(character);
        }
        text.push(character);
    }
    text.push('\'');
    Ok(())
}

fn write_bytes(text: &mut String, value: &[u8]) -> fmt::Result {
    text.reserve(value.len() * 2 + 6);
    text.push_str(r"E'\\x");
    for byte in value {
        write!(text, "{byte:02x}")?;
    }
    text.push('\'');
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn text(sql: &str, parameters: &[Value<'_>]) -> String {
        with_literals(Statement { sql, parameters }).expect("a statement")
    }

    #[test]
    fn stand_in_the_place_of_their_parameters() {
        assert_eq!(
            text(
                "CALL f($1, $2, $10)",
                &[
                    7.into(),
                    true.into(),
                    1.into(),
                    1.into(),
                    1.into(),
                    1.into(),
                    1.into(),
                    1.into(),
                    1.into(),
                    9_i64.into()
                ]
            ),
            "CALL f(('7')::pg_catalog.int4, (true)::pg_catalog.bool, ('9')::pg_catalog.int8)"
        );
        assert_eq!(text("SELECT $1::text - 1", &[None::<&str>.into()]), "SELECT (NULL)::pg_catalog.text::text - 1");
        let texts = ["a'b".to_owned(), r"\".to_owned()];
        assert_eq!(text("$1", &[texts.as_slice().into()]), r"(ARRAY[E'a''b',E'\\'])::pg_catalog.text[]");
        assert_eq!(text("$1", &[Value::Texts(Some(&[]))]), "(ARRAY[])::pg_catalog.text[]");
        assert_eq!(text("$1", &[[0_u8, 255].as_slice().into()]), r"(E'\\x00ff')::pg_catalog.bytea");
    }

    #[test]
    fn hold_several_values_some_of_which_are_null() {
        let id = Uuid::from_u128(1);
        for (value, expected) in [
            (Value::Bools(&[true, false]), "(ARRAY[true,false])::pg_catalog.bool[]"),
            (Value::Doubles(&[0.5, 1e300]), &format!("(ARRAY['0.5','{}'])::pg_catalog.float8[]", 1e300)),
            (
                Value::OptionalBytes(&[Some(&[0, 255]), None, Some(&[])]),
                r"(ARRAY[E'\\x00ff',NULL,E'\\x'])::pg_catalog.bytea[]",
            ),
            (Value::OptionalTexts(&[Some("a'b"), None]), r"(ARRAY[E'a''b',NULL])::pg_catalog.text[]"),
            (Value::OptionalUuids(&[None, Some(id)]), &format!("(ARRAY[NULL,'{id}'])::pg_catalog.uuid[]")),
            (Value::Uuids(&[id]), &format!("(ARRAY['{id}'])::pg_catalog.uuid[]")),
            (Value::Uuids(&[]), "(ARRAY[])::pg_catalog.uuid[]"),
        ] {
            assert_eq!(text("$1", &[value]), expected);
        }
    }

    #[test]
    fn do_not_end_their_quotes() {
        assert_eq!(text("$1", &["'; DROP TABLE a; --".into()]), r"(E'''; DROP TABLE a; --')::pg_catalog.text");
        assert_eq!(text("$1", &[r"\'".into()]), r"(E'\\''')::pg_catalog.text");
        assert_eq!(text("$1", &["$1".into()]), "(E'$1')::pg_catalog.text");
    }

    #[test]
    fn are_neither_in_comments_nor_in_quotes() {
        assert_eq!(
            text("-- $1\nSELECT '$1', '-- it''s $1', $1 -- $1", &[1.into()]),
            "\nSELECT '$1', '-- it''s $1', ('1')::pg_catalog.int4 "
        );
    }

    #[test]
    fn are_all_there() {
        assert!(with_literals(Statement { sql: "$2", parameters: &[1.into()] }).is_err());
        assert!(with_literals(Statement { sql: "$0", parameters: &[1.into()] }).is_err());
    }
}
