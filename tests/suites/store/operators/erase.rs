//! Erasure of all that the records of a user hold, by operators.

use super::operated::{Operated, texts};
use crate::prelude::*;

const SECRET: &str = "4111111111111111";

/// The claim of a new key of this user.
fn of(user: Uuid) -> Claim {
    Claim { resource_type: None, ..claim(user, Uuid::new_v4()) }
}

async fn ended(operated: &Operated, user: Uuid, response: StoredResponse) -> Claim {
    let ended = of(user);
    complete(&operated.store, &ended, &Completion { response, ..completion("") }).await;
    ended
}

/// Whether completed or failed, also if it has expired; and the name of its resource.
#[tokio::test]
async fn erase_every_record_of_a_user_and_none_of_another() {
    let operated = Operated::new().await;
    let [user, other] = [(); 2].map(|()| Uuid::new_v4());
    let types = ResourceTypes::new([ResourceType::unreferenced("card")]);
    let store = PostgresStore::new(operated.database.pool_of_login(2).await, types);
    let named = Claim { resource_type: Some("card".to_owned()), ..of(user) };
    let id = tonic_idempotency::status::ResourceId::from_text(SECRET).expect("an id");
    let created = Resource { resource_type: "card".to_owned(), id };
    complete(&store, &named, &Completion { resource: Some(created), ..completion("done") }).await;
    drop(store);
    let failed = [&[8, 5, 18, 16], SECRET.as_bytes()].concat();
    let kept = [ended(&operated, other, StoredResponse::message(SECRET)).await];
    let completed = ended(&operated, user, StoredResponse::message(SECRET)).await;
    let failed = ended(&operated, user, StoredResponse::Error(failed.into())).await;
    let expired = ended(&operated, user, StoredResponse::message(SECRET)).await;
    operated.set(&expired, "expires = now() - interval '1 second'").await;
    let evicted = ended(&operated, user, StoredResponse::NotStored).await;
    let foreign = of(user);
    insert(&operated.superuser, &foreign, Some(SECRET)).await;
    assert_eq!(operated.rows_with(SECRET).await, 6);

    assert_eq!(operated.erase(user, 1000, None).await, (5, 0, None));
    assert_eq!(operated.rows_with(SECRET).await, 1);
    for record in [&named, &completed, &evicted, &foreign] {
        let replay = replay_of(&operated.store, record).await;
        assert_eq!((replay.response, replay.resource), (StoredResponse::NotStored, None));
    }
    let StoredResponse::Error(error) = replay_of(&operated.store, &failed).await.response else {
        panic!("it failed");
    };
    assert!(error.starts_with(&[8, 5, 18]) && error.ends_with(b"by an operator"), "{error:?}");
    assert_eq!(replay_of(&operated.store, &kept[0]).await.response, StoredResponse::message(SECRET));
    assert_eq!(operated.erase(user, 1000, None).await, (0, 0, None), "nothing is left to do");
    operated.drop_owner().await;
}

/// They are counted until nothing may come any more.
#[tokio::test]
async fn erase_no_reservation_whose_call_may_still_record_a_response() {
    let operated = Operated::new().await;
    let user = Uuid::new_v4();
    ended(&operated, user, StoredResponse::message(SECRET)).await;
    let [reserved, unknown, expired] = [(); 3].map(|()| of(user));
    for claim in [&reserved, &unknown, &expired] {
        acquire(&operated.store, claim).await;
    }
    abandon(&operated.store, &unknown).await;
    operated.set(&expired, "expires = now() - interval '1 second'").await;
    assert_eq!(operated.erase(user, 1000, None).await, (1, 3, None));
    record(&operated.store, &reserved, SECRET).await;
    record(&operated.store, &unknown, SECRET).await;
    record(&operated.store, &expired, SECRET).await;
    assert_eq!(operated.erase(user, 1000, None).await, (3, 0, None));
    assert_eq!(operated.rows_with(SECRET).await, 0);
    operated.drop_owner().await;
}

#[tokio::test]
async fn erase_a_user_page_by_page_and_note_the_pages_that_change_something() {
    let operated = Operated::new().await;
    let user = Uuid::new_v4();
    for _ in 0..4 {
        ended(&operated, user, StoredResponse::message(SECRET)).await;
    }
    acquire(&operated.store, &of(user)).await;
    let pages = async |batch: i32| {
        let (mut pages, mut reached) = (Vec::new(), None);
        loop {
            let (erased, remaining, next) = operated.erase(user, batch, reached).await;
            pages.push((erased, remaining));
            reached = next;
            if reached.is_none() {
                return pages;
            }
            assert!(pages.len() < 10, "each page begins where the one before has ended");
        }
    };
    let first = operated.erase(user, 2, None).await;
    assert_eq!((first.0, first.1, operated.rows_with(SECRET).await), (2, 0, 2));
    assert_eq!(pages(2).await, [(0, 0), (2, 0), (0, 1)]);
    assert_eq!(pages(5).await, [(0, 1), (0, 0)]);
    assert_eq!(pages(6).await, [(0, 1)]);
    // Whichever page is asked for first.
    let late = ended(&operated, user, StoredResponse::message(SECRET)).await;
    assert_eq!(operated.erase(user, 6, first.2).await, (1, 1, None));
    assert_eq!(operated.state(&late).await, "not_stored");

    let notes = ["2 erased, 0", "0 erased, 0", "2 erased, 0", "0 erased, 1", "0 erased, 1", "1 erased, 1"];
    let mut expected = notes.map(|note| format!("{OPERATOR} erase {note} remaining a ticket")).to_vec();
    expected.push(format!("{OPERATOR} inspect not_stored"));
    assert_eq!(operated.audit().await, expected);
    let of_user =
        format!("tenant.idempotency_audit WHERE action = 'erase' AND user_id = '{user}' AND idempotency_key IS NULL");
    assert_eq!(count(&operated.superuser, &of_user).await, 6);
    operated.drop_owner().await;
}

/// It would wait for an application that deletes the resource of one of them, or for an operator.
#[tokio::test]
async fn erase_no_record_that_is_locked_and_do_not_wait_for_it() {
    let operated = Operated::new().await;
    let user = Uuid::new_v4();
    let [locked, _] = [
        ended(&operated, user, StoredResponse::message(SECRET)).await,
        ended(&operated, user, StoredResponse::message(SECRET)).await,
    ];
    let mut locking = operated.database.owner().await;
    let locking = locking.transaction().await.expect("a transaction");
    let [key, _] = texts(&locked);
    let lock = format!("SELECT FROM tenant.idempotency_keys WHERE idempotency_key = '{key}' FOR UPDATE");
    locking.batch_execute(&lock).await.expect("the lock");
    operated.operator.batch_execute("SET statement_timeout = '5s'").await.expect("the setting");
    assert_eq!(operated.erase(user, 1000, None).await, (1, 1, None));
    locking.rollback().await.expect("the end");
    assert_eq!(operated.erase(user, 1000, None).await, (1, 0, None));
    assert_eq!(operated.rows_with(SECRET).await, 0);
    operated.drop_owner().await;
}

/// With an index that finds them, and by the unique index of the keys, of a table that the planner takes for a large one.
#[tokio::test]
async fn erase_a_user_without_reading_the_records_of_others() {
    let mut operated = Operated::new().await;
    let fill = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, token, expires)
                SELECT gen_random_uuid(), gen_random_uuid(), '/a.B/C', '\\x07', '', gen_random_uuid(), now() + interval '1 day'
                FROM generate_series(1, 5000)";
    operated.superuser.batch_execute(fill).await.expect("records");
    for indexed in [false, true] {
        if indexed {
            let index = "CREATE INDEX my_index ON tenant.idempotency_keys (user_id, expires)";
            operated.superuser.batch_execute(index).await.expect("an index");
        }
        let user = Uuid::new_v4();
        for _ in 0..10 {
            ended(&operated, user, StoredResponse::message(SECRET)).await;
        }
        operated.superuser.batch_execute("VACUUM ANALYZE tenant.idempotency_keys").await.expect("statistics");
        let large = "UPDATE pg_class SET reltuples = 1e8 WHERE relname LIKE 'idempotency\\_keys%' AND relkind = 'r'";
        operated.superuser.batch_execute(large).await.expect("statistics");
        // More often than the planner looks at the values.
        for reached in [None, Some(Uuid::nil())].repeat(4) {
            let transaction = operated.operator.transaction().await.expect("a transaction");
            let erase = "SELECT erased FROM tenant.idempotency_erase($1::uuid::text, p_batch => 5, p_reached => $2)";
            let parameters: Parameters<'_> = &[(&user, Type::UUID), (&reached, Type::UUID)];
            let row = transaction.query_typed_one(erase, parameters).await.expect("an answer");
            assert_eq!(row.get::<_, i64>(0), 5, "{indexed}");
            let read = rows_read(transaction.client(), "tenant.idempotency_keys").await;
            assert!(read < 2500, "{indexed}: {read}"); // with the dead ones
            transaction.rollback().await.expect("the end");
        }
        assert_eq!(operated.erase(user, 1000, None).await, (10, 0, None));
    }
    operated.drop_owner().await;
}

/// The other table gets each change.
#[tokio::test]
async fn erase_a_user_at_each_step_of_a_move_to_partitions() {
    let operated = Operated::new().await;
    let owner = operated.database.owner().await;
    owner.batch_execute(&format!("SET ROLE {}", operated.owner)).await.expect("the owner");
    migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
    let user = Uuid::new_v4();
    ended(&operated, user, StoredResponse::message(SECRET)).await;
    let mut steps = Vec::new();
    while steps.last().is_none_or(|step| step != "done") {
        let before = ended(&operated, user, StoredResponse::message(SECRET)).await;
        let step = format!("SELECT step FROM tenant.idempotency_move_step({}, 500, NULL)", partitions().unwrap_or(16));
        steps.push(value::<String>(&owner, &step).await);
        let (erased, remaining, _) = operated.erase(user, 1000, None).await;
        assert_eq!((erased > 0, remaining), (true, 0), "{steps:?}");
        assert_eq!(operated.state(&before).await, "not_stored", "{steps:?}");
    }
    assert!(steps.len() > 5 || partitions().is_some(), "{steps:?}");
    assert_eq!(operated.rows_with(SECRET).await, 0);
    drop(owner);
    operated.drop_owner().await;
}

#[tokio::test]
async fn do_not_erase_without_a_user_or_in_pages_of_no_records() {
    let operated = Operated::new().await;
    let user = Uuid::new_v4();
    ended(&operated, user, StoredResponse::message(SECRET)).await;
    for (arguments, code) in [
        ("NULL".to_owned(), SqlState::NULL_VALUE_NOT_ALLOWED),
        (format!("'{user}', p_batch => 0"), SqlState::INVALID_PARAMETER_VALUE),
        (format!("'{user}', p_batch => NULL"), SqlState::INVALID_PARAMETER_VALUE),
        (format!("'{user}', p_reason => repeat('x', 4001)"), SqlState::STRING_DATA_RIGHT_TRUNCATION),
    ] {
        let erase = format!("SELECT tenant.idempotency_erase({arguments})");
        let error = operated.operator.query_one(&erase, &[]).await.expect_err(&arguments);
        assert_eq!(error.code(), Some(&code), "{arguments}");
    }
    // In a scope, the same text is another user.
    let erase = format!("SELECT erased FROM tenant.idempotency_erase('{user}', 'acme')");
    assert_eq!(value::<i64>(&operated.operator, &erase).await, 0);
    assert_eq!(operated.rows_with(SECRET).await, 1);
    operated.drop_owner().await;
}
