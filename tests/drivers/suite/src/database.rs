//! Statements that the tests share, and counts of the rows in the database.

use tokio_postgres::Client;
use tonic_idempotency_tests::until;

/// The statement of [`Stack::insert`](crate::Stack::insert).
pub const INSERT: &str =
    "INSERT INTO tenant.projects (cluster_id, name) SELECT id, $1 FROM tenant.clusters RETURNING id";

/// A table, which each change of its type makes another to a prepared statement.
pub const NOTES: &str = "CREATE TABLE public.notes (id integer PRIMARY KEY, note varchar NOT NULL);
    INSERT INTO public.notes VALUES (1, 'a note'); GRANT SELECT ON public.notes TO PUBLIC";

/// A statement that loses a deadlock, as the server says it.
pub const DEADLOCK: &str =
    "DO $$ BEGIN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END $$";

/// A statement that cannot be serialised.
pub const SERIALIZATION_FAILURE: &str =
    "DO $$ BEGIN RAISE EXCEPTION 'could not serialize access due to concurrent update'
    USING ERRCODE = 'serialization_failure'; END $$";

/// The numbers of projects, of their outbox rows, and of records in the tables.
pub async fn rows(owner: &Client) -> [i64; 3] {
    let select = "SELECT (SELECT count(*) FROM tenant.projects), (SELECT count(*) FROM authz.outbox WHERE project_id IS NOT NULL),
                         (SELECT count(*) FROM tenant.idempotency_keys)";
    let row = owner.query_one(select, &[]).await.expect("the counts");
    [row.get(0), row.get(1), row.get(2)]
}

/// The names of the projects, in the order of their names.
pub async fn names(owner: &Client) -> Vec<String> {
    let names = owner.query("SELECT name FROM tenant.projects ORDER BY name COLLATE \"C\"", &[]).await;
    names.expect("the projects").iter().map(|row| row.get(0)).collect()
}

/// The number of open transactions in the database, without this one.
pub async fn open_transactions(owner: &Client) -> i64 {
    let select = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND backend_type = 'client backend'
                    AND xact_start IS NOT NULL AND pid <> pg_backend_pid()";
    owner.query_one(select, &[]).await.expect("the activity").get(0)
}

/// Waits until no transaction is open: a ROLLBACK may follow the answer of its call.
pub async fn all_have_ended(owner: &Client) {
    until("all transactions have ended", async || open_transactions(owner).await == 0).await;
}

/// Waits until a connection is in one of these states after this statement, `active` or `idle in transaction`.
pub async fn until_statement(owner: &Client, statement: &str, states: &[&str]) {
    let seen =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = $1 AND state = ANY($2)";
    let runs =
        async || owner.query_one(seen, &[&statement, &states]).await.expect("the activity").get::<_, i64>(0) == 1;
    until("the statement runs", runs).await;
}
