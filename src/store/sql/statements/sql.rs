//! The store's statements.

use std::{borrow::Cow, sync::Arc};

use crate::{
    status::IdKind,
    store::{ResourceType, ResourceTypes, Schema},
};

type Statement = Cow<'static, str>;

/// The record of a key that was free, and its place for the created resource.
const RECORD: &str = include_str!("record.sql");

/// The statements of a store, with the names of its schema.
#[derive(Debug)]
pub(in crate::store::sql) struct Sql {
    pub(in crate::store::sql) abandon: Statement,
    pub(in crate::store::sql) abandoned: Statement,
    pub(in crate::store::sql) allow: Statement,
    pub(in crate::store::sql) begin: Statement,
    pub(in crate::store::sql) begin_without_key: Statement,
    pub(in crate::store::sql) claim: Statement,
    pub(in crate::store::sql) commit: Statement,
    pub(in crate::store::sql) committed: Statement,
    pub(in crate::store::sql) complete: Statement,
    pub(in crate::store::sql) extend: Statement,
    pub(in crate::store::sql) look: Statement,
    pub(in crate::store::sql) look_up: Statement,
    pub(in crate::store::sql) release: Statement,
    pub(in crate::store::sql) status: Statement,
    pub(in crate::store::sql) sweep: Statement,
    pub(in crate::store::sql) take: Statement,
    pub(in crate::store::sql) verify_made: Statement,
    pub(in crate::store::sql) write_many: Statement,
    /// The schema and the table, which the check of the database takes as parameters.
    pub(in crate::store::sql) schema: Schema,
    resource_types: Arc<ResourceTypes>,
    has_common_path: bool,
    record: Statement,
    /// The columns of the resource types, and the records with them.
    records: Vec<(String, String)>,
}

impl Sql {
    pub(in crate::store::sql) fn new(schema: Schema, resource_types: Arc<ResourceTypes>) -> Self {
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
            abandon: schema.apply(include_str!("abandon.sql")),
            abandoned: schema.apply(include_str!("abandoned.sql")),
            allow: schema.apply(include_str!("allow.sql")),
            begin: schema.apply(include_str!("begin.sql")),
            begin_without_key: schema.apply(include_str!("begin_without_key.sql")),
            claim: schema.apply(include_str!("claim.sql")),
            commit: schema.apply(include_str!("commit.sql")),
            committed: schema.apply(include_str!("committed.sql")),
            complete: schema.apply(include_str!("complete.sql")),
            extend: schema.apply(include_str!("extend.sql")),
            look: schema.apply(include_str!("look.sql")),
            look_up: schema.apply(include_str!("look_up.sql")),
            release: schema.apply(include_str!("release.sql")),
            status: schema.apply(include_str!("status.sql")),
            sweep: schema.apply(include_str!("sweep.sql")),
            take: schema.apply(include_str!("take.sql")),
            verify_made: schema.apply(include_str!("verify_made.sql")),
            write_many: schema.apply(include_str!("write_many.sql")),
            record: record("", "").into(),
            records: resource_types.iter().map(of_type).collect(),
            has_common_path: true,
            resource_types,
            schema,
        }
    }

    /// Returns the same statements for other names.
    pub(in crate::store::sql) fn with_schema(&self, schema: Schema) -> Self {
        let has_common_path = self.has_common_path;
        Self { has_common_path, ..Self::new(schema, Arc::clone(&self.resource_types)) }
    }

    pub(in crate::store::sql) fn with_common_path(&self, has_common_path: bool) -> Self {
        Self { has_common_path, ..Self::new(self.schema.clone(), Arc::clone(&self.resource_types)) }
    }

    /// Returns whether plain statements handle the common case. Otherwise the functions do everything, for tests.
    pub(in crate::store::sql) fn has_common_path(&self) -> bool {
        self.has_common_path
    }

    /// Returns the statement that inserts the record of a key that was free, with the created resource in this column of a resource type.
    pub(in crate::store::sql) fn record(&self, column: Option<&str>) -> &str {
        let of_type = column.and_then(|column| self.records.iter().find(|(its, _)| its == column));
        of_type.map_or(&self.record, |(_, record)| record)
    }
}
