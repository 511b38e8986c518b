//! The settings of the transactions of a call: [`CallSession`], [`SessionSettings`].

use std::{fmt, sync::Arc};

use uuid::Uuid;

use crate::caller::{Caller, OwnerId};

/// The longest name of a setting, in bytes. PostgreSQL cuts a longer one.
const LONGEST_NAME: usize = 63;

/// The names with these beginnings are the layer's own.
const RESERVED: [&str; 2] = ["idempotency.", "app.idempotency_"];

/// The application's user and settings for the transactions of a call. The application's own policies and functions in the
/// database read them; the owner of the record is set apart from them. A store without a database ignores them.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "built by the authors of stores, in stores and in their tests")]
pub struct CallSession {
    /// The user, for `app.current_user_id`; `None` if there is none, or the user's id is not a UUID.
    pub user: Option<Uuid>,
    /// The settings of the application; `None` if it has none.
    pub settings: Option<Arc<SessionSettings>>,
}

impl CallSession {
    /// Makes the session of a caller, without settings of the application.
    pub fn of(caller: &Caller) -> Self {
        Self { user: caller.user.as_uuid().copied(), settings: None }
    }

    /// Makes the session of an owner whose caller is not known: of a record that a recovery has found.
    pub(crate) fn of_owner(owner: OwnerId) -> Self {
        Self { user: Some(*owner.as_uuid()), settings: None }
    }
}

/// Settings of PostgreSQL for the transactions of a call, such as `app.tenant_id`. They end with each transaction.
///
/// ```
/// use tonic_idempotency::store::SessionSettings;
///
/// let settings = SessionSettings::new().set("app.tenant_id", "acme").set("app.region", "nl-1");
/// assert_eq!(settings.iter().next(), Some(("app.tenant_id", "acme")));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SessionSettings {
    /// Names and values in turn.
    settings: Vec<String>,
    invalid: Option<InvalidSetting>,
}

impl SessionSettings {
    /// Makes a list without settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a setting. Of several with the same name, the last one counts.
    ///
    /// The name has at least two parts with dots in between, as `app.tenant_id`; each consists of ASCII letters, digits
    /// and underscores, and does not begin with a digit. It has at most 63 bytes, and begins neither with `idempotency.`
    /// nor with `app.idempotency_`, which are the layer's own. `app.current_user_id` may be set: it replaces the user's
    /// UUID. The value must not contain the character 0. A call with an invalid setting is refused with `INTERNAL`,
    /// `IDEMPOTENCY_CALLER_INVALID`, and the log has the setting's name.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        if !is_name(&name) || value.contains('\0') {
            self.invalid.get_or_insert(InvalidSetting { name: name.clone() });
        }
        self.settings.extend([name, value]);
        self
    }

    /// Iterates over the settings, in their order: name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.chunks_exact(2).map(|setting| (&*setting[0], &*setting[1]))
    }

    /// Returns names and values in turn.
    #[cfg(feature = "sql")]
    pub(crate) fn as_flat(&self) -> &[String] {
        &self.settings
    }

    pub(crate) fn check(self) -> Result<Self, InvalidSetting> {
        match self.invalid {
            Some(invalid) => Err(invalid),
            None => Ok(self),
        }
    }
}

/// Omits the values, to keep them out of logs.
impl fmt::Debug for SessionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    // PostgreSQL does not tell upper and lower case apart.
    let lower = name.to_ascii_lowercase();
    name.len() <= LONGEST_NAME
        && name.contains('.')
        && name.split('.').all(is_part)
        && !RESERVED.iter().any(|reserved| lower.starts_with(reserved))
}

/// A setting whose name or value PostgreSQL does not take, or whose name is the layer's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session setting {name:?} has an invalid or reserved name, or a value with the character 0")]
pub(crate) struct InvalidSetting {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_names_with_a_dot_that_are_not_the_layers_own() {
        for name in
            ["app.tenant_id", "App.Tenant", "_a.b1.c", "app.current_user_id", "app.idempotency", &"a.".repeat(31)[..61]]
        {
            assert!(SessionSettings::new().set(name, "ü").check().is_ok(), "{name}");
        }
        let long = format!("app.{}", "x".repeat(60));
        for name in [
            "",
            ".",
            "app",
            "app.",
            ".app",
            "app..x",
            "app.1x",
            "app.x-y",
            "app.x y",
            "app.x'",
            "app.ü",
            "app.x\0",
            "role",
            "search_path",
            "idempotency.owner",
            "IDEMPOTENCY.owner",
            "app.idempotency_sight",
            "App.Idempotency_Token",
            &long,
        ] {
            let settings = SessionSettings::new().set("app.first", "1").set(name, "2").set("app.x", "3");
            assert_eq!(settings.check(), Err(InvalidSetting { name: name.to_owned() }), "{name}");
        }
        assert!(SessionSettings::new().set("app.x", "a\0b").check().is_err());
    }

    #[test]
    fn shows_no_values() {
        let settings = SessionSettings::new().set("app.tenant_id", "acme");
        assert_eq!(format!("{settings:?}"), r#"["app.tenant_id"]"#);
    }
}
