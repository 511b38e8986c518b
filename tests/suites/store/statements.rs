//! The list of the store's statements: none does anything in a transaction that was left open on the connection.

use crate::prelude::*;

/// The functions and the plain statements, each with its guard against a transaction that was left open. All others are procedures, which
/// begin with COMMIT.
const FUNCTIONS: [(&str, Guard); 8] = [
    ("abandoned", Guard::Begin),
    ("begin", Guard::Begin),
    ("begin_without_key", Guard::Begin),
    ("commit", Guard::Begin),
    ("look", Guard::Age),
    ("record", Guard::Begin),
    ("take", Guard::Begin),
    ("allow", Guard::Begin),
];

/// The guard that keeps a function from acting in a transaction that was left open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// It is sent after a BEGIN, which fails there: `driver_suite::functions`.
    Begin,
    /// Its answer has the age of its transaction.
    Age,
}

/// Returns the names and texts of the statements, with NULL for each parameter.
fn statements() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/store/sql/statements");
    let mut statements = Vec::new();
    let files = fs::read_dir(directory).expect("the statements").map(|file| file.expect("a file").path());
    for path in files.filter(|path| path.extension().is_some_and(|it| it == "sql")) {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let mut text = fs::read_to_string(&path).expect("a text");
        for place in (1..=30).rev() {
            text = text.replace(&format!("${place}"), "NULL");
        }
        statements.push((name, text));
    }
    statements
}

/// `verify` and `verify_made` only read.
#[tokio::test]
async fn do_nothing_in_a_transaction_that_someone_left_open() {
    let database = Database::new().await;
    let api = database.api().await;
    let statements = statements();
    let of_driver = driver::statements(ResourceTypes::none());
    let (_, begin) = of_driver.into_iter().find(|(name, _)| name == "transaction").expect("the BEGIN");
    assert!(FUNCTIONS.iter().all(|(name, _)| statements.iter().any(|(statement, _)| statement == name)));
    for (name, text) in statements.iter().filter(|(name, _)| !name.starts_with("verify")) {
        let guard = FUNCTIONS.iter().find(|(function, _)| function == name).map(|(_, guard)| *guard);
        api.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("a transaction");
        match guard {
            None => {
                let error = api.batch_execute(text).await.expect_err(name);
                assert_eq!(error.code(), Some(&SqlState::INVALID_TRANSACTION_TERMINATION), "{name}: {error:?}");
            }
            Some(Guard::Begin) => {
                let error = api.batch_execute(&begin).await;
                assert_eq!(error.expect_err(name).code(), Some(&SqlState::ACTIVE_SQL_TRANSACTION), "{name}");
            }
            Some(Guard::Age) => {
                let old = "SELECT clock_timestamp() - now() > interval '100 milliseconds'";
                until("the transaction is old", async || value(&api, old).await).await;
                api.batch_execute("SET LOCAL idempotency.owner = 'an owner'; SET LOCAL app.current_user_id = 'a user'")
                    .await
                    .expect("settings");
                let two = "ARRAY['7d444840-9dc0-11d1-b245-5ffdce74fad2'::uuid, '7d444840-9dc0-11d1-b245-5ffdce74fad3']";
                let look = format!(
                    "SELECT age > 0.1 FROM tenant.idempotency_look({two}, {two}, {two}, ARRAY[NULL, NULL], {two}, NULL)"
                );
                let looked = api.query(&look, &[]).await.expect("two rows, also of absent keys");
                assert_eq!(looked.iter().map(|row| row.get(0)).collect::<Vec<bool>>(), [true, true]);
                let left =
                    "SELECT concat(current_setting('idempotency.owner'), current_setting('app.current_user_id'))";
                assert_eq!(api.query_one(left, &[]).await.expect("settings").get::<_, &str>(0), "an ownera user");
            }
        }
        api.batch_execute("ROLLBACK").await.expect("the end");
    }
}
