//! A table of keys that is partitioned by user (`migrations/packs/partitions.sql`): made so, and moved while calls go on.
//!
//! With `IDEMPOTENCY_TEST_PARTITIONS`, all other tests have such a table, too.

mod compared;
mod made;
mod model;
mod moved;
mod moving;
mod steps;
mod stopped;
mod swept;

use tonic_idempotency::migrations::MigrationError;

use crate::{
    batches::statements::{self, Outcome},
    prelude::*,
};

/// The number of partitions of a test's own table: few, so that each has rows, and the test is quick.
const PARTITIONS: u16 = 4;

/// A database with a table without partitions, whatever `IDEMPOTENCY_TEST_PARTITIONS` says.
async fn plain() -> Database {
    let (database, mut owner) = Database::empty_with_owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    database
}

/// A database with a partitioned table.
async fn partitioned() -> Database {
    let database = plain().await;
    migrations::partition(&database.owner().await, &Schema::default(), PARTITIONS).await.expect("the partitions");
    database
}

async fn count(client: &Client, select: &str) -> i64 {
    value(client, select).await
}

async fn partitions(owner: &Client) -> i64 {
    count(owner, "SELECT tenant.idempotency_partitions()::int8").await
}

/// Fills the table with records of others, so that there is something to copy.
async fn fill(owner: &Client, rows: i64) {
    let insert = format!(
        "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, expires)
         SELECT gen_random_uuid(), gen_random_uuid(), '/', '', '', now() + interval '1 day' FROM generate_series(1, {rows})"
    );
    owner.batch_execute(&insert).await.expect("many rows");
}

/// Begins the move, and returns when it has ended.
async fn go(database: &Database) -> Result<(), MigrationError> {
    migrations::move_to_partitions(&database.owner().await, &Schema::default(), PARTITIONS).await
}

fn claims(number: usize) -> Vec<Claim> {
    (0..number).map(|_| any()).collect()
}

/// Asserts that statements for several calls find and change the rows of all their users.
async fn statements_for_several_calls_work(database: &Database) {
    let api = database.api().await;
    let done = vec![Outcome::DONE; 64];
    // More than the five times after which PostgreSQL may keep a plan.
    for round in 0..8 {
        let claims = claims(64);
        let all: Vec<_> = claims.iter().collect();
        let held: Vec<_> = claims.iter().map(|claim| claim.reservation).collect();
        let others: Vec<_> = claims.iter().map(again).collect();
        let others: Vec<_> = others.iter().collect();
        assert_eq!(statements::reserve(&api, &all).await.expect("a statement"), [true; 64], "{round}");
        assert_eq!(statements::reserve(&api, &others).await.expect("a statement"), [false; 64], "{round}");
        let found = statements::look(&api, &others).await.expect("a statement");
        assert_eq!(statements::texts(&found, "state"), vec![Some("reserved".to_owned()); 64], "{round}");
        assert_eq!(statements::complete(&api, &held, &done).await.expect("a statement"), [true; 64], "{round}");
        let found = statements::look(&api, &all).await.expect("a statement");
        assert_eq!(statements::texts(&found, "state"), vec![Some("completed".to_owned()); 64], "{round}");
    }
}

/// Sets when a key's record expires, in seconds from now.
async fn expire(owner: &Client, claim: &Claim, seconds: f64) {
    let update = "UPDATE tenant.idempotency_keys SET expires = now() + make_interval(secs => $3)
                  WHERE user_id = $1 AND idempotency_key = $2";
    let (user, key) = (claim.reservation.owner.as_uuid(), claim.reservation.key.as_uuid());
    let parameters = [(user as _, Type::UUID), (key as _, Type::UUID), (&seconds as _, Type::FLOAT8)];
    owner.query_typed(update, &parameters).await.expect("the time");
}
