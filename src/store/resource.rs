//! The resource types that a store can record.

/// A type of resource whose creation is recorded: its name, its column in `tenant.idempotency_keys`, and the table whose
/// `id` that column references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    name: String,
    column: String,
    table: String,
}

impl ResourceType {
    /// A resource type. None of the names has to be quoted; the table's carries its schema.
    ///
    /// ```
    /// use tonic_idempotency::store::ResourceType;
    ///
    /// let invoice = ResourceType::new("invoice", "invoice_id", "billing.invoices");
    /// assert_eq!(
    ///     invoice.registration_sql(),
    ///     "SELECT tenant.idempotency_register_resource('invoice', 'invoice_id', 'billing.invoices');"
    /// );
    /// ```
    pub fn new(name: impl Into<String>, column: impl Into<String>, table: impl Into<String>) -> Self {
        Self { name: name.into(), column: column.into(), table: table.into() }
    }

    /// The name, as procedures give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The column in `tenant.idempotency_keys`.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The table whose `id` the column references.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The SQL that registers the type, for a migration tool of the application's own: adds the column, the foreign key and the
    /// check that at most one such column is set. The owner of the table runs it, after the core migrations; running it again
    /// changes nothing. `migrations::register` (feature `postgres`) does the same for all types at once.
    pub fn registration_sql(&self) -> String {
        let [name, column, table] = [&self.name, &self.column, &self.table].map(|text| text.replace('\'', "''"));
        format!("SELECT tenant.idempotency_register_resource('{name}', '{column}', '{table}');")
    }
}

/// The resource types that a store can record. An application lists its own, registers them once in its database
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
    /// These types. Of two with one name the first counts.
    pub fn new(types: impl IntoIterator<Item = ResourceType>) -> Self {
        let mut known = Self::none();
        for resource_type in types {
            if known.get(&resource_type.name).is_none() {
                known.types.push(resource_type);
            }
        }
        known
    }

    /// No type at all: keys are recorded without what they created.
    pub fn none() -> Self {
        Self::default()
    }

    /// The type with this name.
    pub fn get(&self, name: &str) -> Option<&ResourceType> {
        self.types.iter().find(|known| known.name == name)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ResourceType> {
        self.types.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_types_with_one_name_the_first_counts() {
        let types = ResourceTypes::new([
            ResourceType::new("invoice", "invoice_id", "billing.invoices"),
            ResourceType::new("invoice", "bill_id", "billing.bills"),
        ]);
        assert_eq!(types.iter().map(ResourceType::column).collect::<Vec<_>>(), ["invoice_id"]);
    }
}
