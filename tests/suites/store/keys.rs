//! How keys are stored.

use tonic_idempotency::{IdempotencyKey, policy::KeyFormat};

use crate::prelude::*;

/// The statement in the documentation that finds the records of the key `order-17`.
fn documented() -> &'static str {
    let page = include_str!("../../../docs/database.md");
    let (_, section) = page.split_once("## Finding a record by its key\n").expect("the section");
    let (_, statement) = section.split_once("```sql\n").expect("a statement");
    statement.split_once("```").expect("its end").0
}

#[tokio::test]
async fn the_documented_statement_finds_the_record_of_a_key_by_its_text() {
    let (database, owner) = Database::with_owner().await;
    let store = database.store();
    let [user, other] = [database.user().await.id, database.user().await.id];
    for (user, key) in [(user, "order-17"), (user, "order-18"), (other, "order-17"), (other, "a'b\\c")] {
        let key = IdempotencyKey::new(key, KeyFormat::Any).expect("a key");
        acquire(&store, &claim(user, *key.id().as_uuid())).await;
    }
    for (key, mut expected) in [("order-17", vec![user, other]), ("order-18", vec![user]), ("a'b\\c", vec![other])] {
        let statement = documented().replace("'order-17'", "$1");
        let rows = owner.query_typed(&statement, &[(&key, Type::TEXT)]).await.expect("the statement");
        let mut found: Vec<Uuid> = rows.iter().map(|row| row.get("user_id")).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{key}");
        assert!(rows.iter().all(|row| row.get::<_, &str>("procedure") == PROCEDURE));
    }
}
