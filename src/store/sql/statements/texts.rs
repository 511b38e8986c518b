//! The texts of a store's statements, for a database that is simulated.

use std::{sync::Arc, time::Duration};

use super::{
    begin_transaction::{WHO, begin},
    questions::{CLOCK, running},
    sql::Sql,
};
use crate::{
    policy::Isolation,
    store::{ResourceTypes, Schema},
};

/// Returns the names and texts of the statements that a store with the default schema and these resource types sends. The name of a record
/// with a place for a resource ends in its column. The text of `running` is the question about statements of zero seconds.
pub fn statements(types: ResourceTypes) -> Vec<(String, String)> {
    let sql = Sql::new(Schema::default(), Arc::new(types.clone()));
    let named = [
        ("abandon", &*sql.abandon),
        ("abandoned", &*sql.abandoned),
        ("allow", &*sql.allow),
        ("ask", CLOCK),
        ("begin", &*sql.begin),
        ("begin_without_key", &*sql.begin_without_key),
        ("claim", &*sql.claim),
        ("commit", &*sql.commit),
        ("committed", &*sql.committed),
        ("complete", &*sql.complete),
        ("extend", &*sql.extend),
        ("look", &*sql.look),
        ("look_up", &*sql.look_up),
        ("record", sql.record(None)),
        ("release", &*sql.release),
        ("running", &*running(Duration::ZERO)),
        ("status", &*sql.status),
        ("sweep", &*sql.sweep),
        ("take", &*sql.take),
        ("transaction", begin(Isolation::ReadCommitted)),
        ("who", WHO.sql),
        ("write_many", &*sql.write_many),
    ];
    let named = named.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let records = types.iter().map(|it| (format!("record {}", it.column()), sql.record(Some(it.column())).to_owned()));
    named.into_iter().chain(records).collect()
}
