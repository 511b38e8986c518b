//! The effects that the operations left in the database.

use std::collections::HashMap;

use tokio_postgres::Client;
use uuid::Uuid;

use crate::{
    error::Error,
    operation::{Operation, Variant},
};

/// Selects everything that the operations can have created, of all users. The sample starts with one cluster of its
/// own.
const SELECT: &str = "SELECT id, name FROM tenant.projects
    UNION ALL SELECT id, name FROM tenant.clusters WHERE name <> 'first'
    UNION ALL SELECT id, email FROM tenant.organization_users";

/// Selects the number of sealed responses, and that of responses that can be read.
const COUNT: &str = "SELECT count(*) FILTER (WHERE response_not_stored AND substr(response_metadata, 1, 1) = '\\x00'),
                            count(*) FILTER (WHERE response_bytes <> '')
                     FROM tenant.idempotency_keys";

/// The effects: the rows in the business tables.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The operation and the request of each row.
    by_id: HashMap<Uuid, (u32, Variant)>,
    by_request: HashMap<(u32, Variant), Vec<Uuid>>,
    /// Names of rows that belong to no operation.
    pub(super) strangers: Vec<String>,
    /// The number of sealed responses, if servers seal.
    pub(crate) sealed: Option<u64>,
    /// The number of responses that can be read then.
    pub(super) readable: u64,
}

impl Rows {
    /// Reads the rows as superuser, so that row-level security does not hide any. Looks into the records if servers seal.
    pub(crate) async fn read(client: &Client, seals: bool) -> Result<Self, Error> {
        let mut rows = Self::default();
        for row in client.query(SELECT, &[]).await? {
            rows.add(row.try_get(0)?, row.try_get(1)?);
        }
        if seals {
            let counts = client.query_one(COUNT, &[]).await?;
            let count = |column| Ok::<_, Error>(u64::try_from(counts.try_get::<_, i64>(column)?)?);
            (rows.sealed, rows.readable) = (Some(count(0)?), count(1)?);
        }
        Ok(rows)
    }

    pub(super) fn add(&mut self, id: Uuid, name: &str) {
        match Operation::of_name(name) {
            Some(request) => {
                self.by_id.insert(id, request);
                self.by_request.entry(request).or_default().push(id);
            }
            None => self.strangers.push(name.to_owned()),
        }
    }

    /// The rows of a request.
    pub(crate) fn of(&self, operation: u32, variant: Variant) -> &[Uuid] {
        self.by_request.get(&(operation, variant)).map_or(&[], Vec::as_slice)
    }

    /// The operation and the request of a row.
    pub(super) fn owner(&self, id: Uuid) -> Option<(u32, Variant)> {
        self.by_id.get(&id).copied()
    }
}
