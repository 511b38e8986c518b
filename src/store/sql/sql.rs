//! The store's statements.

use std::{borrow::Cow, sync::Arc};

use crate::{
    status::IdKind,
    store::{ResourceType, ResourceTypes, Schema},
};

type Statement = Cow<'static, str>;

/// The record of a key that was free, and its place for the created resource.
const RECORD: &str = include_str!("sql/record.sql");

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
    pub(super) look: Statement,
    pub(super) look_up: Statement,
    pub(super) release: Statement,
    pub(super) status: Statement,
    pub(super) sweep: Statement,
    pub(super) take: Statement,
    pub(super) verify_made: Statement,
    pub(super) write_many: Statement,
    /// The schema and the table, which the check of the database takes as parameters.
    pub(super) schema: Schema,
    resource_types: Arc<ResourceTypes>,
    has_common_path: bool,
    record: Statement,
    /// The columns of the resource types, and the records with them.
    records: Vec<(String, String)>,
}

impl Sql {
    pub(super) fn new(schema: Schema, resource_types: Arc<ResourceTypes>) -> Self {
        let record = |column: &str, resource: &str| {
            schema.apply(RECORD).replace("{column}", column).replace("{resource}", resource)
        };
        let of_type = |it: &ResourceType| {
            let column = format!(", \"{}\"", it.column().replace('"', "\"\""));
            let resource = match it.id_kind() {
                _ if it.table().is_none() => ", $13::pg_catalog.text",
                IdKind::Integer => ", $13::pg_catalog.text::pg_catalog.int8",
                IdKind::Text => ", $13::pg_catalog.text",
                IdKind::Uuid => ", $13::pg_catalog.text::pg_catalog.uuid",
            };
            (it.column().to_owned(), record(&column, resource))
        };
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
            look: schema.apply(include_str!("sql/look.sql")),
            look_up: schema.apply(include_str!("sql/look_up.sql")),
            release: schema.apply(include_str!("sql/release.sql")),
            status: schema.apply(include_str!("sql/status.sql")),
            sweep: schema.apply(include_str!("sql/sweep.sql")),
            take: schema.apply(include_str!("sql/take.sql")),
            verify_made: schema.apply(include_str!("sql/verify_made.sql")),
            write_many: schema.apply(include_str!("sql/write_many.sql")),
            record: record("", "").into(),
            records: resource_types.iter().map(of_type).collect(),
            has_common_path: true,
            resource_types,
            schema,
        }
    }

    /// Returns the same statements for other names.
    pub(super) fn with_schema(&self, schema: Schema) -> Self {
        let has_common_path = self.has_common_path;
        Self { has_common_path, ..Self::new(schema, Arc::clone(&self.resource_types)) }
    }

    pub(super) fn with_common_path(&self, has_common_path: bool) -> Self {
        Self { has_common_path, ..Self::new(self.schema.clone(), Arc::clone(&self.resource_types)) }
    }

    /// Returns whether plain statements handle the common case. Otherwise the functions do everything, for tests.
    pub(super) fn has_common_path(&self) -> bool {
        self.has_common_path
    }

    /// Returns the statement that inserts the record of a key that was free, with the created resource in this column of a resource type.
    pub(super) fn record(&self, column: Option<&str>) -> &str {
        let of_type = column.and_then(|column| self.records.iter().find(|(its, _)| its == column));
        of_type.map_or(&self.record, |(_, record)| record)
    }
}
