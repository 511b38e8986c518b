//! The names of the objects that the migrations make in PostgreSQL: [`Schema`].

use std::{borrow::Cow, fmt::Write as _};

/// The longest name, in bytes. PostgreSQL cuts a longer one.
const LONGEST: usize = 63;

/// The schema that the SQL files name.
const SCHEMA: &str = "tenant";

/// The table that the SQL files name.
const TABLE: &str = "idempotency_keys";

/// The prefix of the names of all other objects in the schema.
const PREFIX: &str = "idempotency_";

/// The tables beside the table of keys.
const OTHERS: [&str; 8] = [
    "idempotency_allowances",
    "idempotency_audit",
    "idempotency_keys_before",
    "idempotency_keys_next",
    "idempotency_migrations",
    "idempotency_move",
    "idempotency_move_changes",
    "idempotency_resource_types",
];

/// The prefix of the names of partitions, before their numbers.
const PARTITION: &str = "idempotency_keys_p";

/// The names of the schema and of the table of keys in PostgreSQL. `migrations` (feature `sql`) and `PostgresStore`
/// take the same. Defaults to `tenant` and `idempotency_keys`.
///
/// The schema holds the table, the tables of resource types, of migrations and of the operators' audit, and their functions, whose names begin with
/// `idempotency_`. A database may have several such schemas, each with a store of its own; one schema has one table of
/// keys. The schema `authn`, with the function of the application's user, is the same for all of them.
///
/// ```
/// use tonic_idempotency::store::{InvalidIdentifier, Schema};
///
/// let schema = Schema::new("My-Billing")?.table("keys")?;
/// assert_eq!((schema.name(), schema.table_name()), ("My-Billing", "keys"));
/// assert!(Schema::new("billing; DROP TABLE invoices").is_err());
/// # Ok::<(), InvalidIdentifier>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    name: String,
    table: String,
}

impl Schema {
    /// Makes the names of this schema with the table `idempotency_keys`.
    ///
    /// A name has from 1 to 63 characters: letters and digits of ASCII, `_` and `-`, and a letter or `_` at first. It is
    /// quoted in every statement, so that upper and lower case differ.
    ///
    /// # Errors
    ///
    /// [`InvalidIdentifier`] for another name, or if it is reserved by PostgreSQL: it begins with `pg_`.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidIdentifier> {
        let name = identifier(name.into())?;
        if name.to_ascii_lowercase().starts_with("pg_") {
            return Err(InvalidIdentifier { name });
        }
        Ok(Self { name, ..Self::default() })
    }

    /// Sets the name of the table of keys, for example of one that exists and is to be adopted.
    ///
    /// # Errors
    ///
    /// [`InvalidIdentifier`], as for the schema, or if it is the name of another table of the layer.
    pub fn table(self, name: impl Into<String>) -> Result<Self, InvalidIdentifier> {
        let table = identifier(name.into())?;
        let number = table.strip_prefix(PARTITION).unwrap_or_default();
        if OTHERS.contains(&table.as_str()) || number.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(InvalidIdentifier { name: table });
        }
        Ok(Self { table, ..self })
    }

    /// Returns the name of the schema.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the table of keys.
    pub fn table_name(&self) -> &str {
        &self.table
    }

    /// Returns SQL for these names from SQL for the default ones.
    ///
    /// Replaces qualified names of objects that the migrations make, such as `tenant.idempotency_claim`, also in literals and in the bodies
    /// of functions, and the name of the schema by itself, which only code may have. Comments stay, and so does every other name, such as
    /// `tenant.projects` or `my_tenant.idempotency_keys`. The names need no escape in any literal, format or body.
    pub(crate) fn apply(&self, sql: &'static str) -> Cow<'static, str> {
        if *self == Self::default() {
            return Cow::Borrowed(sql);
        }
        let mut applied = String::with_capacity(sql.len() + sql.len() / 8);
        let mut in_literal = false;
        let mut rest = sql;
        while !rest.is_empty() {
            let (token, kind) = next(rest, in_literal);
            in_literal ^= kind == Kind::Quote;
            rest = &rest[token.len()..];
            match kind {
                Kind::Name if token == SCHEMA && !applied.ends_with(['.', '"']) => {
                    let after = rest.strip_prefix('.').map(word).unwrap_or_default();
                    if after.starts_with(PREFIX) {
                        rest = &rest[1 + after.len()..];
                        self.qualified(after, &mut applied);
                    } else if in_literal || rest.starts_with(['.', '"']) {
                        applied.push_str(token);
                    } else {
                        self.quoted(&mut applied);
                    }
                }
                _ => applied.push_str(token),
            }
        }
        Cow::Owned(applied)
    }

    fn quoted(&self, sql: &mut String) {
        // Writing to a String never fails.
        let _ = write!(sql, "\"{}\"", self.name);
    }

    fn qualified(&self, object: &str, sql: &mut String) {
        self.quoted(sql);
        let _ = if object == TABLE { write!(sql, ".\"{}\"", self.table) } else { write!(sql, ".{object}") };
    }
}

/// Returns the literal of a text, which means the same whatever `standard_conforming_strings` is.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', r"\\")) } else { format!("'{quoted}'") }
}

/// `tenant.idempotency_keys`.
impl Default for Schema {
    fn default() -> Self {
        Self { name: SCHEMA.to_owned(), table: TABLE.to_owned() }
    }
}

/// The kind of a token of SQL, as far as names are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Comment,
    /// A word: a name, a keyword, a number.
    Name,
    Other,
    /// The beginning or the end of a literal.
    Quote,
}

/// Returns the next part of SQL, which is not empty. A quote in a body of a function counts as in code.
fn next(sql: &str, in_literal: bool) -> (&str, Kind) {
    if !in_literal && sql.starts_with("--") {
        return (&sql[..sql.find('\n').unwrap_or(sql.len())], Kind::Comment);
    }
    let name = word(sql);
    if !name.is_empty() {
        return (name, Kind::Name);
    }
    let first = sql.chars().next().map_or(0, char::len_utf8);
    (&sql[..first], if sql.starts_with('\'') { Kind::Quote } else { Kind::Other })
}

/// Returns the word that the text begins with; empty if it begins with none.
fn word(text: &str) -> &str {
    let is_in_word = |character: char| character.is_alphanumeric() || character == '_' || character == '$';
    // A dollar that begins a text begins the quote of a body.
    if text.starts_with('$') {
        return "";
    }
    &text[..text.find(|character| !is_in_word(character)).unwrap_or(text.len())]
}

fn identifier(name: String) -> Result<String, InvalidIdentifier> {
    let is_first = |character: char| character.is_ascii_alphabetic() || character == '_';
    let is_any = |character: char| is_first(character) || character.is_ascii_digit() || character == '-';
    if name.starts_with(is_first) && name.chars().all(is_any) && name.len() <= LONGEST {
        Ok(name)
    } else {
        Err(InvalidIdentifier { name })
    }
}

/// A name that a schema or a table cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} cannot be the name of the schema or of the table of idempotency keys: it has from 1 to 63 letters and digits \
     of ASCII, `_` and `-`, a letter or `_` at first, and is not reserved"
)]
pub struct InvalidIdentifier {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd() -> Schema {
        Schema::new("My-Tenant").and_then(|schema| schema.table("Keys")).expect("names")
    }

    #[test]
    fn takes_names_that_need_no_escape() {
        for name in ["tenant", "a", "_", "My-Tenant", "T1_", "select", &"x".repeat(63)] {
            assert_eq!(Schema::new(name).expect("a name").table(name).expect("a name").table_name(), name);
        }
        for name in [
            "",
            "1a",
            "-a",
            "a b",
            "a.b",
            "a\"b",
            "a'b",
            "a$b",
            "a%b",
            "a\\b",
            "a;b",
            "a\0",
            "ä",
            "pg_temp",
            "PG_x",
            &"x".repeat(64),
        ] {
            assert!(Schema::new(name).is_err(), "{name:?}");
        }
        for other in OTHERS {
            assert!(Schema::default().table(other).is_err(), "{other}");
        }
        assert!(Schema::default().table("idempotency_keys_p15").is_err());
        assert!(Schema::default().table("idempotency_keys_past").is_ok());
        assert!(Schema::default().table("a'b").is_err());
    }

    #[test]
    fn changes_its_own_names_wherever_they_are() {
        for (sql, expected) in [
            ("CALL tenant.idempotency_claim($1)", "CALL \"My-Tenant\".idempotency_claim($1)"),
            ("FROM tenant.idempotency_keys k", "FROM \"My-Tenant\".\"Keys\" k"),
            ("'tenant.idempotency_keys'::regclass", "'\"My-Tenant\".\"Keys\"'::regclass"),
            (
                "f(tenant.idempotency_f(tenant.idempotency_keys))",
                "f(\"My-Tenant\".idempotency_f(\"My-Tenant\".\"Keys\"))",
            ),
            ("$f$ tenant.idempotency_keys $f$", "$f$ \"My-Tenant\".\"Keys\" $f$"),
            ("$tenant$ x $tenant$", "$tenant$ x $tenant$"),
            ("CREATE SCHEMA IF NOT EXISTS tenant;", "CREATE SCHEMA IF NOT EXISTS \"My-Tenant\";"),
            ("'it''s tenant.idempotency_f'", "'it''s \"My-Tenant\".idempotency_f'"),
            ("'a -- b' || tenant.idempotency_f()", "'a -- b' || \"My-Tenant\".idempotency_f()"),
        ] {
            assert_eq!(odd().apply(sql), expected);
            assert_eq!(Schema::default().apply(sql), sql);
        }
    }

    #[test]
    fn leaves_everything_else_as_it_is() {
        for sql in [
            "-- tenant.idempotency_keys, the caller's\nSELECT 1",
            "SELECT 1 -- tenant",
            "tenant.projects",
            "tenant.\"idempotency_keys\"",
            "my_tenant.idempotency_keys",
            "x.tenant.idempotency_keys",
            "tenants.idempotency_keys",
            "\"tenant\".idempotency_keys",
            "idempotency_keys_pk",
            "'a tenant of the house'",
            "größe.tenant_id",
        ] {
            assert_eq!(odd().apply(sql), sql);
        }
        let mixed = "'x' -- it's tenant\ntenant.idempotency_f('tenant')";
        assert_eq!(odd().apply(mixed), "'x' -- it's tenant\n\"My-Tenant\".idempotency_f('tenant')");
    }
}
