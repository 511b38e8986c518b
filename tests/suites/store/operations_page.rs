//! `docs/operations.md`: every statement of the page is run, in the order of the page, as the role that the comment above it names.

use tokio_postgres::SimpleQueryMessage;

use crate::operators::{Operated, open};
use crate::prelude::*;

const PAGE: &str = include_str!("../../../docs/operations.md");

/// The page that moves the table to partitions.
const DATABASE: &str = include_str!("../../../docs/database.md");

/// The statements of the page: who runs them, and their text.
fn statements() -> Vec<(&'static str, String)> {
    statements_of(PAGE, "")
}

/// The statement that moves the table to partitions.
fn way() -> (&'static str, String) {
    statements_of(DATABASE, "move_to_partitions").pop().expect("the way")
}

/// The statements in the blocks of a page that contain a word.
fn statements_of(page: &'static str, word: &str) -> Vec<(&'static str, String)> {
    let blocks = page.split("```sql\n").skip(1).map(|block| block.split("```").next().expect("its text"));
    let mut statements = Vec::new();
    for line in blocks.filter(|block| block.contains(word)).flat_map(str::lines) {
        match (line.strip_prefix("-- as "), statements.last_mut()) {
            (Some(role), _) => statements.push((role, String::new())),
            (None, Some((_, text))) => *text = format!("{text}{line}\n"),
            (None, None) => panic!("nobody runs {line}"),
        }
    }
    statements
}

/// A service with the records of the page's caller, and the page's roles.
struct Page {
    operated: Operated,
    owner: Client,
    /// Each role of the page, with its name here.
    names: [(&'static str, String); 4],
    /// Reserved, with the key and the token of the page.
    stuck: Claim,
    /// Completed, of the same caller.
    done: Claim,
}

impl Page {
    async fn new() -> Self {
        let operated = Operated::new().await;
        let owner = operated.database.owner().await;
        owner.batch_execute(&format!("SET ROLE {}", operated.owner)).await.expect("the owner");
        migrations::limits(&owner, &Schema::default()).await.expect("the limits");
        migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
        let unique = |role: &str| format!("{role}_{}", Uuid::new_v4().simple());
        let names = [
            ("my_operator_role", unique("idempotency_tests_operator")),
            ("my_backup_role", unique("idempotency_tests_backup")),
            ("my_owner_role", operated.owner.clone()),
            ("my_api_role", API_LOGIN.to_owned()),
        ];
        let user = UserId::from_text("auth0|5f7c8ec7").expect("a user");
        let caller = Caller::new(user).in_scope(Scope::from_text("acme").expect("a scope"));
        let of_caller = |key| Claim { resource_type: None, ..claim(*caller.owner().as_uuid(), key) };
        let stuck = of_caller("8e03978e-40d5-43dd-bc93-6894a57f9324".parse().expect("a key"));
        let token = "d3a1f0c2-6f0e-4c57-9d52-6c1f3a0b7e11".parse().expect("a token");
        let stuck = Claim { reservation: Reservation { token, ..stuck.reservation }, ..stuck };
        acquire(&operated.store, &stuck).await;
        let done = of_caller(Uuid::new_v4());
        complete(&operated.store, &done, &completion("done")).await;
        Self { operated, owner, names, stuck, done }
    }

    fn name(&self, role: &str) -> &str {
        &self.names.iter().find(|(name, _)| *name == role).expect("a role").1
    }

    /// Runs a statement as the role. Returns the first column of its rows.
    async fn run(&self, role: &str, statement: &str) -> Vec<String> {
        let statement = self.names.iter().fold(statement.to_owned(), |text, (role, name)| text.replace(role, name));
        let client = match role.split([' ', ',']).take(2).collect::<Vec<_>>()[..] {
            ["a", "superuser"] => self.operated.database.owner().await,
            ["the", "API"] => self.operated.database.api().await,
            ["the", "operator"] => self.operated.database.login(self.name("my_operator_role")).await,
            ["the", "owner"] => {
                let client = self.operated.database.owner().await;
                client.batch_execute(&format!("SET ROLE {}", self.operated.owner)).await.expect("the owner");
                client
            }
            _ => panic!("who is {role}?"),
        };
        let messages = client.simple_query(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.collect()
    }

    /// Drops the roles that the page makes, as far as they were made.
    async fn drop_roles(self) {
        let roles = [self.name("my_operator_role"), self.name("my_backup_role")].map(str::to_owned);
        let superuser = self.operated.database.owner().await;
        drop(self.owner);
        for role in roles {
            let drop = format!(
                "DO $$ BEGIN
                     IF to_regrole('{role}') IS NOT NULL THEN
                         DROP OWNED BY {role}; DROP ROLE {role};
                     END IF;
                 END $$"
            );
            superuser.batch_execute(&drop).await.expect("the role goes");
        }
        // The database goes with it, and all of its sessions.
        drop(superuser);
        self.operated.drop_owner().await;
    }
}

#[tokio::test]
async fn every_statement_does_what_the_page_says() {
    let page = Page::new().await;
    let store = page.operated.store.clone();
    let running = Claim { resource_type: None, ..claim(Uuid::new_v4(), Uuid::new_v4()) };
    let transaction = open(&store, &running).await;
    // This transaction outlives the end of the other.
    let beside = open(&store, &Claim { resource_type: None, ..claim(Uuid::new_v4(), Uuid::new_v4()) }).await;
    let mut seen = Vec::new();
    for (role, statement) in statements() {
        let pid = page.operated.inspect(&running).await.get::<_, Option<i32>>("holder_pid");
        let statement = statement.replace("12345", &pid.unwrap_or_default().to_string());
        let rows = page.run(role, &statement).await;
        let row = rows.first().cloned().unwrap_or_default();
        for (function, expected) in [
            ("idempotency_inspect(", "reserved"),
            ("idempotency_operator_release(", "released"),
            ("pg_terminate_backend(", "t"),
        ] {
            if statement.contains(function) {
                assert_eq!(row, expected, "{statement}");
                seen.push(function);
            }
        }
        if statement.contains("FROM pg_stat_activity") {
            assert!(!rows.is_empty(), "{statement}");
        }
    }
    assert_eq!(seen, ["idempotency_inspect(", "idempotency_operator_release(", "pg_terminate_backend("]);

    // The released call is fenced; the ended transaction left nothing; the erased user has no record and no note.
    let late = store.complete(&page.stuck.reservation, &completion("late")).await.expect("the store answers");
    assert_eq!(late, CompleteOutcome::Fenced);
    transaction.commit(Some(completion("late"))).await.expect_err("it was ended");
    beside.roll_back().await;
    acquire(&store, &again(&running)).await;
    for table in ["tenant.idempotency_keys", "tenant.idempotency_audit"] {
        let count = format!("SELECT count(*) FROM {table} WHERE user_id = $1");
        let owner = page.done.reservation.owner;
        let count = page.operated.superuser.query_one(&count, &[owner.as_uuid()]).await.expect("the count");
        assert_eq!(count.get::<_, i64>(0), 0, "{table}");
    }
    page.drop_roles().await;
}

/// As an owner to whom row-level security applies.
#[tokio::test]
async fn the_owner_moves_the_table_to_partitions() {
    let page = Page::new().await;
    let (role, way) = way();
    page.run(role, &way).await;
    let counts =
        "SELECT count(*), (SELECT count(*) FROM pg_inherits WHERE inhparent = 'tenant.idempotency_keys'::regclass)
                  FROM tenant.idempotency_keys";
    let counts = page.operated.superuser.query_one(counts, &[]).await.expect("the counts");
    assert_eq!((counts.get::<_, i64>(0), counts.get::<_, i64>(1)), (2, 16));
    acquire(&page.operated.store, &Claim { resource_type: None, ..claim(Uuid::new_v4(), Uuid::new_v4()) }).await;
    let late =
        page.operated.store.complete(&page.stuck.reservation, &completion("late")).await.expect("the store answers");
    assert_eq!(late, CompleteOutcome::Completed);
    page.drop_roles().await;
}

/// As pg_dump reads the table.
#[tokio::test]
async fn the_backup_role_reads_all_rows_and_the_owner_cannot() {
    let page = Page::new().await;
    for (role, statement) in statements() {
        if statement.contains("my_backup_role") {
            page.run(role, &statement).await;
        }
    }
    let backup = page.operated.database.login(page.name("my_backup_role")).await;
    let dump = "SET row_security = off; SELECT * FROM tenant.idempotency_keys";
    let rows = backup.simple_query(dump).await.expect("all rows");
    assert_eq!(rows.iter().filter(|row| matches!(row, SimpleQueryMessage::Row(_))).count(), 2);
    let error = page.owner.simple_query(dump).await.expect_err("row-level security is forced");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    drop(backup);
    page.drop_roles().await;
}

/// Only the erased user's records go.
#[tokio::test]
async fn erasing_a_user_leaves_the_records_of_others() {
    let page = Page::new().await;
    let other = Claim { resource_type: None, ..claim(Uuid::new_v4(), *page.stuck.reservation.key.as_uuid()) };
    complete(&page.operated.store, &other, &completion("done")).await;
    let (role, erase) = statements().into_iter().find(|(_, text)| text.contains("BEGIN;")).expect("the statements");
    page.run(role, &erase).await;
    let left = "SELECT user_id FROM tenant.idempotency_keys";
    let left = page.operated.superuser.query(left, &[]).await.expect("the rows");
    let left: Vec<Uuid> = left.iter().map(|row| row.get(0)).collect();
    assert_eq!(left, [*other.reservation.owner.as_uuid()]);
    page.drop_roles().await;
}
