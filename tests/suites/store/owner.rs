//! The owner of a record, as Rust and the database derive it from a user and a scope.

use std::collections::HashMap;

use crate::prelude::*;

/// A scope, a user, and their owner. Fixed: records are found by them.
const VECTORS: [(Option<&str>, &str, &str); 10] = [
    // A UUID in no scope is its own owner, only in its usual form.
    (None, "0198c0de-0000-7000-8000-00000000000a", "0198c0de-0000-7000-8000-00000000000a"),
    (None, "0198C0DE-0000-7000-8000-00000000000A", "ea036d03-9e36-8b72-91c5-0e176e84c254"),
    (Some("acme"), "0198c0de-0000-7000-8000-00000000000a", "f74e9af3-b08b-843b-a10c-4b20014747dc"),
    (
        Some("0198c0de-0000-7000-8000-00000000000a"),
        "0198c0de-0000-7000-8000-00000000000a",
        "5fca3a05-28ea-8ba3-a189-e48dac1f9d61",
    ),
    (None, "auth0|5f7c8ec7", "597df8f4-5581-8f44-ba20-7eefdc7f02b8"),
    (Some("acme"), "auth0|5f7c8ec7", "7b8d9269-fc10-8469-a92d-24a45e6154cc"),
    (Some("globex"), "auth0|5f7c8ec7", "12a8ab63-18f2-87e3-9160-1517fb5f9dba"),
    // Lengths are of bytes.
    (None, "grüße", "c915fe6d-4e9c-8452-8e54-2851b0252911"),
    // The same letters, cut in another place.
    (Some("a"), "bc", "24dbd378-716d-8fd4-863f-c2a0f68201fe"),
    (Some("ab"), "c", "561c5e4c-92ca-8ae4-83d6-ed4549665d74"),
];

fn caller(scope: Option<&str>, user: &str) -> Caller {
    let caller = Caller::new(UserId::from_text(user).expect("a user"));
    match scope {
        Some(scope) => caller.in_scope(Scope::from_text(scope).expect("a scope")),
        None => caller,
    }
}

#[test]
fn is_the_one_of_the_fixed_vectors() {
    for (scope, user, owner) in VECTORS {
        assert_eq!(caller(scope, user).owner().as_uuid().to_string(), owner, "{scope:?} {user}");
    }
    let longest = caller(Some(&"x".repeat(255)), &"y".repeat(255));
    assert_eq!(longest.owner().as_uuid().to_string(), "20b2f640-7423-8729-a2b5-0fa79fa17fc3");
}

#[test]
fn is_the_same_for_a_uuid_and_its_text() {
    let id = Uuid::new_v4();
    let scope = Scope::new(Uuid::new_v4());
    for text in [UserId::new(id), UserId::from_text(&id.to_string()).expect("a user")] {
        assert_eq!(Caller::new(text.clone()).owner().as_uuid(), &id);
        let scoped = Caller::new(UserId::new(id)).in_scope(scope.clone()).owner();
        assert_eq!(Caller::new(text).in_scope(scope.clone()).owner(), scoped);
    }
}

/// No two of many similar callers have the same owner.
#[test]
fn differs_for_callers_that_differ() {
    let id = "0198c0de-0000-7000-8000-00000000000a";
    let texts =
        ["a", "b", "ab", "A", "a ", " a", "a\0", "\0", "\0a", "|", "a|b", id, &id.to_uppercase(), &id.replace('-', "")];
    let scopes = [None].into_iter().chain(texts.map(Some));
    let mut owners = HashMap::new();
    for scope in scopes {
        for user in texts {
            assert_eq!(owners.insert(caller(scope, user).owner(), (scope, user)), None, "{scope:?} {user}");
        }
    }
}

/// A person who looks for a row computes its owner there.
#[tokio::test]
async fn is_the_same_in_the_database() {
    let (_database, owner) = Database::with_owner().await;
    for (scope, user, expected) in VECTORS {
        let select = "SELECT tenant.idempotency_owner($1, $2)";
        let row = owner.query_typed_one(select, &[(&scope, Type::TEXT), (&user, Type::TEXT)]).await.expect("an owner");
        assert_eq!(row.get::<_, Uuid>(0).to_string(), expected, "{scope:?} {user}");
    }
    assert_eq!(value::<Option<Uuid>>(&owner, "SELECT tenant.idempotency_owner('acme', NULL)").await, None);
}
