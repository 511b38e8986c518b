//! The problems that the check of a database finds, each with its remedy.

/// The remedy for what the migrations make.
const RUN: &str =
    "as the owner of the tables, call migrations::run, or run the files that `tonic-idempotency migrations` writes";

/// Something that is wrong with the database of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupProblem {
    /// PUBLIC has a privilege, or the role one that only the owner, or an operator, should have.
    #[error(
        "{role} has {privilege} on {object}; as the owner of the tables, REVOKE {privilege} ON {object} FROM {role}"
    )]
    ExcessPrivilege {
        /// The kind and name of the object.
        object: String,
        /// The privilege.
        privilege: String,
        /// The role that it was granted to: that of the pool, one that it is a member of, or `PUBLIC`.
        role: String,
    },
    /// Row-level security does not apply to the role, or to the one that the connection logged in as and can return to.
    #[error(
        "row-level security does not apply to the role {role}: it is a superuser or has BYPASSRLS; log in as a role \
         of the API's own"
    )]
    ExemptRole {
        /// The role.
        role: String,
    },
    /// A statement of a call does not work. It was tried on a row of an owner that exists only for this check.
    #[error("{call} does not work: {error}")]
    FailedCall {
        /// The call that was tried.
        call: String,
        /// The error, or what was found instead.
        error: String,
    },
    /// The table lacks a constraint.
    #[error(
        "the table {table} lacks the check {name}; delete the row of migration 1 from idempotency_migrations, and run migrations::run"
    )]
    MissingCheck {
        /// The constraint.
        name: String,
        /// The table, with its schema.
        table: String,
    },
    /// Migrations were not run, or were run with different SQL.
    #[error("the database lacks {}; {RUN}", named(.versions))]
    MissingMigrations {
        /// Their numbers.
        versions: Vec<u32>,
    },
    /// A pack was not run, or was run with different SQL.
    #[error(
        "the store needs the pack {name}, and the database lacks it; as the owner of the tables, call migrations::{name} and \
         migrations::grant, or run the files that `tonic-idempotency migrations --{name}` writes; if a part of it is gone, delete its row \
         from idempotency_migrations before"
    )]
    MissingPack {
        /// Its name: `limits`.
        name: &'static str,
    },
    /// The role lacks a privilege.
    #[error(
        "the role {role} lacks {privilege} on {object}; as the owner of the tables, call migrations::grant for it, or run the file that \
         `tonic-idempotency migrations --grant {role}` writes"
    )]
    MissingPrivilege {
        /// The kind and name of the object.
        object: String,
        /// The privilege.
        privilege: String,
        /// The role that the pool logs in as.
        role: String,
    },
    /// A routine is gone.
    #[error(
        "the routine {routine} does not exist; delete the row of migration {migration} from idempotency_migrations, and run \
         migrations::run and migrations::grant"
    )]
    MissingRoutine {
        /// The routine, with its schema.
        routine: String,
        /// The number of the migration that makes it.
        migration: u32,
    },
    /// There is no table of keys.
    #[error("the table {table} does not exist; {RUN}")]
    MissingTable {
        /// The table, with its schema.
        table: String,
    },
    /// The store limits the records of one user, and no index finds them.
    #[error(
        "the store limits the records of one user, but no index of {table} is led by user_id and expires; make one: \
         CREATE INDEX CONCURRENTLY my_index ON {table} (user_id, expires)"
    )]
    NoIndexOfUsers {
        /// The table, with its schema.
        table: String,
    },
    /// Row-level security is off, or the role owns the table and it is not forced.
    #[error(
        "row-level security of {table} does not apply to the role; ENABLE it, and FORCE it if the role owns the table"
    )]
    NoRowLevelSecurity {
        /// The table, with its schema.
        table: String,
    },
    /// Resource types are tracked, and the function that knows their status is the one that the migrations made, which knows
    /// none.
    #[error(
        "the store knows the status of {resource_types} (ResourceType::tracked), but {function} is as the migrations made it, and knows no status; \
         replace it, with the parameters (p_resource_type text, p_resource text)"
    )]
    NoStatus {
        /// The function, with its schema.
        function: String,
        /// The names of the types.
        resource_types: String,
    },
    /// The ids of a resource type are of another kind in the database.
    #[error(
        "the ids of the resource type {name} have the type {found} in the database; say their kind with ResourceType::ids"
    )]
    OtherIdKind {
        /// The type's name.
        name: String,
        /// The type of its column.
        found: String,
    },
    /// An object is gone, or was made for an owner other than the table's present one.
    #[error(
        "the owner of the table of keys has changed, or a part of it is gone; run migrations::run, as that owner or as a \
         superuser: {}",
        first(.repairs)
    )]
    OtherOwner {
        /// The statements that make it right.
        repairs: Vec<String>,
    },
    /// The foreign key of a resource type leads to another table: one that had this name when the type was registered.
    #[error("the ids of the resource type {name} refer to {found}, which is not its table; run migrations::register")]
    OtherTable {
        /// The type's name.
        name: String,
        /// The table to which the foreign key leads.
        found: String,
    },
    /// The functions are of another version of the crate.
    #[error(
        "the functions in the database {}, and the store needs those of version {needed}; {RUN}",
        .found.map_or("are missing".to_owned(), |found| format!("have version {found}"))
    )]
    OtherVersion {
        /// The version in the database; `None` if it has none.
        found: Option<i32>,
        /// The version that the store needs.
        needed: i32,
    },
    /// A setting of the role, the database or the pool makes calls fail, or changes their meaning.
    #[error(
        "the setting {name} is {value:?} in the store's sessions, which is not what calls need; take it back: ALTER ROLE ... RESET, ALTER \
         DATABASE ... RESET, or in the pool"
    )]
    Setting {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// A resource type of the store is not registered in the database.
    #[error("the resource type {name} with the column {column} is not registered; run migrations::register")]
    UnregisteredType {
        /// The type's name.
        name: String,
        /// Its column.
        column: String,
    },
}

impl SetupProblem {
    /// Returns the place of its remedy among those of other problems: earlier ones have to work first, or solve it along.
    pub(super) fn place(&self) -> u8 {
        match self {
            Self::MissingTable { .. } => 0,
            Self::MissingMigrations { .. } | Self::OtherVersion { .. } => 1,
            Self::MissingCheck { .. } | Self::MissingRoutine { .. } | Self::OtherOwner { .. } => 2,
            Self::MissingPack { .. } => 3,
            Self::MissingPrivilege { object, .. } => match object.split(' ').next() {
                Some("schema") => 4,
                Some("table") => 5,
                _ => 6,
            },
            Self::NoStatus { .. }
            | Self::OtherIdKind { .. }
            | Self::OtherTable { .. }
            | Self::UnregisteredType { .. } => 7,
            Self::ExcessPrivilege { .. }
            | Self::ExemptRole { .. }
            | Self::NoIndexOfUsers { .. }
            | Self::NoRowLevelSecurity { .. }
            | Self::Setting { .. } => 8,
            Self::FailedCall { .. } => 9,
        }
    }

    pub(super) fn is_missing_privilege(&self) -> bool {
        matches!(self, Self::MissingPrivilege { .. })
    }

    /// Names the privilege that is missing.
    pub(super) fn privilege(&self) -> Option<String> {
        match self {
            Self::MissingPrivilege { object, privilege, .. } => Some(format!("{privilege} on {object}")),
            _ => None,
        }
    }
}

/// Names the first of several statements.
fn first(repairs: &[String]) -> String {
    match repairs {
        [] => String::new(),
        [one] => one.clone(),
        [one, others @ ..] => format!("{one}, and {} more", others.len()),
    }
}

/// Names migrations by their numbers.
fn named(versions: &[u32]) -> String {
    let numbers: Vec<_> = versions.iter().map(u32::to_string).collect();
    format!("migration{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}
