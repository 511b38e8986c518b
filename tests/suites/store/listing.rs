//! A condition on the user lists none: nothing that PostgreSQL tells of such a statement depends on other users' rows. (docs/threat-model.md
//! says what does.)

use tonic_idempotency_tests::KNOWN_TO_PLANNER;

use crate::prelude::*;

/// Users of the database, with records.
const USERS: usize = 12;

/// The user of the role in these tests.
const OWN: Uuid = Uuid::max();

/// A table with records of users, none of whom is known to the API's role.
async fn filled(partitions: Option<u16>) -> (Database, Client) {
    let (database, mut owner) = Database::empty_with_owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    if let Some(partitions) = partitions {
        migrations::partition(&owner, &Schema::default(), partitions).await.expect("the partitions");
    }
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    let others = format!("SELECT gen_random_uuid() AS id FROM generate_series(1, {USERS})");
    owner.batch_execute(&records(&others)).await.expect("records");
    // Many own records make the planner's estimates of combined conditions large.
    let api = database.api().await;
    api.batch_execute(&format!("SET idempotency.owner = '{OWN}'")).await.expect("an owner");
    for _ in 0..10 {
        api.batch_execute(&records(&format!("SELECT '{OWN}'::uuid AS id"))).await.expect("records");
    }
    owner.batch_execute("VACUUM (ANALYZE) tenant.idempotency_keys").await.expect("statistics");
    // All pages are in the cache, so that each statement reads the same.
    owner.query_one("SELECT count(*) FROM tenant.idempotency_keys WHERE token IS NOT NULL", &[]).await.expect("all");
    (database, owner)
}

/// A statement that inserts 200 records for each of these users.
fn records(users: &str) -> String {
    format!(
        "INSERT INTO tenant.idempotency_keys
             (idempotency_key, user_id, procedure, request_hash, arrival_hash, response_bytes, token, lease_expires, expires, completed)
         SELECT gen_random_uuid(), u.id, '/p', sha256(u.id::text::bytea), sha256(n::text::bytea), convert_to(n::text, 'UTF8'),
                gen_random_uuid(), now(), now() + interval '1 day', now()
         FROM ({users}) u, generate_series(1, 200) n"
    )
}

/// The output of EXPLAIN for a statement, without the user in it and the pages that planning has read.
async fn told(api: &Client, explain: &str, condition: &str, user: Uuid) -> String {
    let user = user.to_string();
    let statement = format!(
        "{explain} SELECT FROM tenant.idempotency_keys WHERE {}",
        condition.replace("$1", &format!("'{user}'"))
    );
    let lines: Vec<String> = values(api, &statement).await;
    lines.into_iter().take_while(|line| !line.starts_with("Planning")).collect::<Vec<_>>().join("\n").replace(&user, "")
}

/// Finds users by bisection: between two UUIDs for which PostgreSQL tells different things, there is one. (Without the least UUID: that none
/// is less is known without a look at any.)
async fn found(api: &Client, explain: &str, condition: &str) -> Vec<Uuid> {
    const PART: u128 = u128::MAX / 16;
    let mut users = Vec::new();
    let mut ranges: Vec<(u128, u128)> = (0..16).map(|part| (part * PART + 1, (part + 1) * PART)).collect();
    while let Some((from, to)) = ranges.pop() {
        let [below, above] = [from, to].map(Uuid::from_u128);
        // Twice, because the first statement of its kind reads more.
        let mut differs = true;
        for _ in 0..2 {
            differs &= told(api, explain, condition, below).await != told(api, explain, condition, above).await;
        }
        if !differs {
            continue;
        }
        match to - from {
            1 => users.push(below),
            length => ranges.extend([(from, from + length / 2), (from + length / 2, to)]),
        }
    }
    users
}

async fn users(owner: &Client) -> Vec<Uuid> {
    values(owner, &format!("SELECT DISTINCT user_id FROM tenant.idempotency_keys WHERE user_id <> '{OWN}'")).await
}

const CONDITIONS: [&str; 5] = [
    "user_id < $1",
    "user_id < $1 AND id > '00000000-0000-0000-0000-0000000000aa'",
    "user_id < $1 AND idempotency_key > '00000000-0000-0000-0000-0000000000aa'",
    "user_id < $1 AND expires > now()",
    "(user_id < $1 AND procedure = '/p' OR user_id IS NULL)",
];

/// Reports the pages that were read.
const READ: &str = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS)";

/// The plans that the role asks for.
const PLANS: [&str; 3] = [
    "RESET ALL",
    "SET enable_seqscan = off",
    "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off",
];

#[tokio::test]
async fn no_estimate_and_no_number_of_rows_that_are_read_tells_a_user() {
    for partitions in [None, Some(4)] {
        let (database, owner) = filled(partitions).await;
        assert_eq!(users(&owner).await.len(), USERS);
        let api = database.api().await;
        for (plan, explain) in PLANS.into_iter().flat_map(|plan| ["EXPLAIN", READ].map(|explain| (plan, explain))) {
            execute(&api, &format!("{plan}; SET idempotency.owner = '{OWN}'")).await;
            for condition in CONDITIONS {
                let found = found(&api, explain, condition).await;
                assert_eq!(found.len(), 0, "{explain}, {USERS} users, {partitions:?}, {plan}, {condition}: {found:?}");
            }
        }
    }
}

/// PostgreSQL reads by either policy then, and filters: the page on the threat model says so.
#[tokio::test]
async fn another_policy_for_the_role_lets_it_count_the_rows_that_are_read() {
    let (database, owner) = filled(Some(4)).await;
    let sql = "CREATE POLICY other ON tenant.idempotency_keys FOR SELECT
                 USING (CASE WHEN user_id = authn.current_user_id() THEN true ELSE false END)";
    execute(&owner, sql).await;
    let api = database.api().await;
    let mut tells = false;
    for plan in PLANS {
        api.batch_execute(&format!("{plan}; SET idempotency.owner = '{OWN}'")).await.expect("the settings");
        let [none, all] = [1, u128::MAX - 1].map(Uuid::from_u128);
        tells |= told(&api, READ, CONDITIONS[0], none).await != told(&api, READ, CONDITIONS[0], all).await;
    }
    assert!(tells, "the threat model says too much");
}

/// Otherwise EXPLAIN tells keys, requests, responses and the ids of resources, too.
#[tokio::test]
async fn the_planner_has_no_values_that_belong_to_users() {
    for partitions in [None, Some(4)] {
        let (database, owner) = filled(partitions).await;
        let resources = "CREATE TABLE tenant.things (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
             INSERT INTO tenant.things SELECT gen_random_uuid() FROM generate_series(1, 100);
             SELECT tenant.idempotency_register_resource('thing', 'thing_id', 'tenant.things');
             UPDATE tenant.idempotency_keys SET thing_id = (SELECT id FROM tenant.things LIMIT 1);
             ANALYZE tenant.idempotency_keys";
        for statement in resources.split(';') {
            owner.batch_execute(statement).await.expect(statement);
        }
        let known = "SELECT DISTINCT s.attname::text FROM pg_stats s
                     JOIN pg_class c ON c.relname = s.tablename AND c.relnamespace = s.schemaname::regnamespace
                     WHERE c.oid = 'tenant.idempotency_keys'::regclass OR c.oid IN (
                         SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = 'tenant.idempotency_keys'::regclass
                         UNION SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = 'tenant.idempotency_keys'::regclass
                     ) ORDER BY 1";
        assert_eq!(values::<String>(&owner, known).await, KNOWN_TO_PLANNER, "{partitions:?}");
        // Nor does the role see the statistics that there are.
        let api = database.api().await;
        for view in ["pg_stats", "pg_stats_ext"] {
            let seen = count(&api, &format!("{view} WHERE tablename LIKE 'idempotency_keys%'")).await;
            assert_eq!(seen, 0, "{view}");
        }
    }
}
