//! The resource types that a store can record.

#[cfg(feature = "sql")]
use std::borrow::Cow;

use super::{Schema, schema::literal};
use crate::status::IdKind;

/// The column that types without a column of their own share.
const SHARED: &str = "resource_name";

/// A type of resource that calls can create. A record refers to the created resource in a column of the table of
/// keys. A type's own column references the `id` of the resource's table; the shared column has the resource's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    name: String,
    /// The type's own column, and the table that it references.
    reference: Option<(String, String)>,
    id_kind: IdKind,
    is_tracked: bool,
}

impl ResourceType {
    /// Makes a resource type from its name, its column and its table. Give the table with its schema, and quote
    /// nothing.
    ///
    /// ```
    /// use tonic_idempotency::store::{ResourceType, Schema};
    ///
    /// let invoice = ResourceType::new("invoice", "invoice_id", "billing.invoices");
    /// assert_eq!(
    ///     invoice.registration_sql(&Schema::default()),
    ///     "SELECT tenant.idempotency_register_resource('invoice', 'invoice_id', 'billing.invoices');"
    /// );
    /// ```
    pub fn new(name: impl Into<String>, column: impl Into<String>, table: impl Into<String>) -> Self {
        let reference = Some((column.into(), table.into()));
        Self { name: name.into(), reference, id_kind: IdKind::Uuid, is_tracked: false }
    }

    /// Makes a resource type without a column of its own: its records hold the name of the resource, `type/id`, and no
    /// foreign key. Such a type needs no registration, and its resources may be anywhere. It has no index and no
    /// foreign key: for each type that has them, a call pays about 17 µs of PostgreSQL's time. The record of a deleted
    /// resource keeps the resource's name.
    ///
    /// ```
    /// use tonic_idempotency::store::{ResourceType, Schema};
    ///
    /// let email = ResourceType::unreferenced("email");
    /// assert_eq!((email.column(), email.table()), ("resource_name", None));
    /// assert_eq!(email.registration_sql(&Schema::default()), "");
    /// ```
    ///
    /// # Panics
    ///
    /// The name has a `/`: in a record, it would end there.
    pub fn unreferenced(name: impl Into<String>) -> Self {
        let name = name.into();
        assert!(
            !name.contains('/'),
            "the resource type {name:?} has a /, which ends the type in a record's resource_name"
        );
        Self { name, reference: None, id_kind: IdKind::Uuid, is_tracked: false }
    }

    /// Sets the kind of the ids: that of the column `id` of the resource's table, where an `integer` counts as a `bigint`, and a
    /// `varchar` as a `text`. Defaults to UUIDs.
    ///
    /// ```
    /// use tonic_idempotency::{status::IdKind, store::ResourceType};
    ///
    /// let order = ResourceType::new("order", "order_id", "shop.orders").ids(IdKind::Integer);
    /// assert_eq!(order.id_kind(), IdKind::Integer);
    /// ```
    #[must_use]
    pub fn ids(mut self, kind: IdKind) -> Self {
        self.id_kind = kind;
        self
    }

    /// Says that the store knows the status of such resources. On `PostgresStore`, the SQL function
    /// `tenant.idempotency_resource_status` has to return it: the application replaces this function. Defaults to
    /// untracked: then a layer with a procedure that creates such a resource needs a
    /// [`status_resolver`](crate::layer::IdempotencyLayerBuilder::status_resolver), unless the procedure says that
    /// [no asynchronous work follows](crate::policy::ProcedureBuilder::creates_untracked).
    ///
    /// ```
    /// use tonic_idempotency::store::ResourceType;
    ///
    /// assert!(!ResourceType::new("invoice", "invoice_id", "billing.invoices").is_tracked());
    /// assert!(ResourceType::new("project", "project_id", "tenant.projects").tracked().is_tracked());
    /// ```
    #[must_use]
    pub fn tracked(mut self) -> Self {
        self.is_tracked = true;
        self
    }

    /// Returns the name, as it is in the options of procedures.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the column in the table of keys.
    pub fn column(&self) -> &str {
        self.reference.as_ref().map_or(SHARED, |(column, _)| column)
    }

    /// Returns the table whose `id` the column references; `None` for a type without a column of its own.
    pub fn table(&self) -> Option<&str> {
        self.reference.as_ref().map(|(_, table)| table.as_str())
    }

    /// Returns how the column refers to the resource with this id.
    #[cfg(feature = "sql")]
    pub(crate) fn in_column<'a>(&self, id: Cow<'a, str>) -> Cow<'a, str> {
        if self.reference.is_some() { id } else { format!("{}/{id}", self.name).into() }
    }

    /// Returns the kind of the ids.
    pub fn id_kind(&self) -> IdKind {
        self.id_kind
    }

    /// Returns whether the store knows the status of such resources.
    pub fn is_tracked(&self) -> bool {
        self.is_tracked
    }

    /// Returns the SQL that registers the type in this schema, for the application's own migration tool. It adds the column, the
    /// foreign key, its index and the check that at most one such column is set. The owner of the table runs it after the
    /// core migrations, and then `SELECT tenant.idempotency_validate();`, which checks the rows that were there before.
    /// Running it again changes nothing and locks nothing. The SQL is empty for a type without a column of its own.
    /// `migrations::register` (feature `postgres`) does the same for all types at once.
    pub fn registration_sql(&self, schema: &Schema) -> String {
        let Some((column, table)) = &self.reference else { return String::new() };
        let [name, column, table] = [&self.name, column, table].map(|name| literal(name));
        let register = schema.apply("SELECT tenant.idempotency_register_resource");
        format!("{register}({name}, {column}, {table});")
    }
}

/// The resource types that a store can record. An application lists its types, registers them in its database
/// (`migrations::register`, feature `postgres`), and passes them to its store.
///
/// ```
/// use tonic_idempotency::store::{ResourceType, ResourceTypes};
///
/// let types = ResourceTypes::new([
///     ResourceType::new("invoice", "invoice_id", "billing.invoices"),
///     ResourceType::new("refund", "refund_id", "billing.refunds"),
/// ]);
/// assert_eq!(types.get("invoice").unwrap().column(), "invoice_id");
/// assert!(types.get("receipt").is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTypes {
    types: Vec<ResourceType>,
}

impl ResourceTypes {
    /// Makes a list of types. If two types have the same name, the first one counts.
    pub fn new(types: impl IntoIterator<Item = ResourceType>) -> Self {
        let mut known = Self::none();
        for resource_type in types {
            if known.get(&resource_type.name).is_none() {
                known.types.push(resource_type);
            }
        }
        known
    }

    /// Makes an empty list: records do not refer to the resources that their calls created.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the type with this name.
    pub fn get(&self, name: &str) -> Option<&ResourceType> {
        self.types.iter().find(|known| known.name == name)
    }

    /// Iterates over the types, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &ResourceType> {
        self.types.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "has a /"]
    fn a_type_without_a_column_has_a_name_that_ends_where_the_id_begins() {
        ResourceType::unreferenced("mail/box");
    }

    #[test]
    fn of_two_types_with_one_name_the_first_counts() {
        let types = ResourceTypes::new([
            ResourceType::new("invoice", "invoice_id", "billing.invoices"),
            ResourceType::new("invoice", "bill_id", "billing.bills"),
        ]);
        assert_eq!(types.iter().map(ResourceType::column).collect::<Vec<_>>(), ["invoice_id"]);
    }
}
