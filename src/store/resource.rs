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

    /// The SQL that registers the type in a database with the core migrations: adds the column, the foreign key and the
    /// check that at most one such column is set. To be run by the owner of the table; running it again changes nothing.
    pub fn registration_sql(&self) -> String {
        let [name, column, table] = [&self.name, &self.column, &self.table].map(|text| text.replace('\'', "''"));
        format!("SELECT tenant.idempotency_register_resource('{name}', '{column}', '{table}');")
    }
}

/// The resource types that a store can record.
///
/// ```
/// use tonic_idempotency::store::{ResourceType, ResourceTypes};
///
/// let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
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
        Self { types: types.into_iter().collect() }
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
