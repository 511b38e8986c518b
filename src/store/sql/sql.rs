//! The store's statements.

use std::borrow::Cow;

use crate::store::Schema;

type Statement = Cow<'static, str>;

/// The statements of a store, with the names of its schema.
#[derive(Debug)]
pub(super) struct Sql {
    pub(super) abandon: Statement,
    pub(super) abandoned: Statement,
    pub(super) allow: Statement,
    pub(super) begin: Statement,
    pub(super) begin_without_key: Statement,
    pub(super) claim: Statement,
    pub(super) commit: Statement,
    pub(super) committed: Statement,
    pub(super) complete: Statement,
    pub(super) extend: Statement,
    pub(super) extend_many: Statement,
    pub(super) look: Statement,
    pub(super) look_up: Statement,
    pub(super) operator_release: Statement,
    pub(super) release: Statement,
    pub(super) release_many: Statement,
    pub(super) status: Statement,
    pub(super) sweep: Statement,
    pub(super) verify_made: Statement,
    pub(super) write_many: Statement,
    /// The schema and the table, which the check of the database takes as parameters.
    pub(super) schema: Schema,
}

impl Sql {
    pub(super) fn new(schema: Schema) -> Self {
        Self {
            abandon: schema.apply(include_str!("sql/abandon.sql")),
            abandoned: schema.apply(include_str!("sql/abandoned.sql")),
            allow: schema.apply(include_str!("sql/allow.sql")),
            begin: schema.apply(include_str!("sql/begin.sql")),
            begin_without_key: schema.apply(include_str!("sql/begin_without_key.sql")),
            claim: schema.apply(include_str!("sql/claim.sql")),
            commit: schema.apply(include_str!("sql/commit.sql")),
            committed: schema.apply(include_str!("sql/committed.sql")),
            complete: schema.apply(include_str!("sql/complete.sql")),
            extend: schema.apply(include_str!("sql/extend.sql")),
            extend_many: schema.apply(include_str!("sql/extend_many.sql")),
            look: schema.apply(include_str!("sql/look.sql")),
            look_up: schema.apply(include_str!("sql/look_up.sql")),
            operator_release: schema.apply(include_str!("sql/operator_release.sql")),
            release: schema.apply(include_str!("sql/release.sql")),
            release_many: schema.apply(include_str!("sql/release_many.sql")),
            status: schema.apply(include_str!("sql/status.sql")),
            sweep: schema.apply(include_str!("sql/sweep.sql")),
            verify_made: schema.apply(include_str!("sql/verify_made.sql")),
            write_many: schema.apply(include_str!("sql/write_many.sql")),
            schema,
        }
    }
}
