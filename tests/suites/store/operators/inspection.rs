//! Inspection of keys by operators.

use std::time::SystemTime;

use tonic_idempotency::{IdempotencyKey, KeyId, policy::KeyFormat};

use super::operated::{Operated, texts};
use crate::prelude::*;

/// Every form in which a caller may write a key.
#[tokio::test]
async fn a_key_is_the_same_in_the_database_as_in_rust() {
    let (_database, owner) = Database::with_owner().await;
    let id = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    for key in [
        id,
        &id.to_uppercase(),
        &id.replace('-', ""),
        &format!("urn:uuid:{id}"),
        &format!("{{{id}}}"),
        &format!("URN:UUID:{id}"),
        &format!("{{{}}}", id.replace('-', "")),
        &id.replacen('-', "", 1),
        &format!("{id}0"),
        "order-17",
        "a",
        "{\"a\":\"b\\c\"}",
        &"x".repeat(255),
    ] {
        let expected = *IdempotencyKey::new(key, KeyFormat::Any).expect("a key").id().as_uuid();
        let row = owner.query_typed_one("SELECT tenant.idempotency_key_id($1)", &[(&key, Type::TEXT)]).await;
        assert_eq!(row.expect("an id").get::<_, Uuid>(0), expected, "{key}");
    }
}

/// So that an operator finds a message by its id.
#[tokio::test]
async fn of_an_operation_are_computed_as_the_layer_does() {
    let operated = Operated::new().await;
    let (four, seven) = ("8e03978e-40d5-43dd-bc93-6894a57f9324", "019a0e7c-6a1f-7000-8000-000000000001");
    let forms = |id: &str| {
        [id.to_owned(), id.to_uppercase(), id.replace('-', ""), format!("urn:uuid:{id}"), format!("{{{id}}}")]
    };
    let others = ["order-17", "Rechnung März.pdf", "{8e03978e40d543ddbc936894a57f9324", " ", "a\n"].map(str::to_owned);
    for id in forms(four).iter().chain(&forms(seven)).chain(&others).chain([&"x".repeat(10_000)]) {
        for name in ["billing.v1/ChargeOrder", "/billing.v1/ChargeOrder"] {
            let select = "SELECT tenant.idempotency_operation_key($1, $2)";
            let row = operated.operator.query_typed_one(select, &[(&name, Type::TEXT), (id, Type::TEXT)]).await;
            let expected = *KeyId::of_operation(name, id).as_uuid();
            assert_eq!(row.expect("a key").get::<_, Uuid>(0), expected, "{name} {id}");
        }
    }
}

#[tokio::test]
async fn see_each_state_as_the_layer_does() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [reserved, abandoned, unknown, completed, not_stored, failed, expired] = [(); 7].map(|()| any());
    assert_eq!(operated.state(&reserved).await, "absent");
    acquire(store, &reserved).await;
    let row = operated.inspect(&reserved).await;
    assert_eq!(row.get::<_, &str>("state"), "reserved");
    assert_eq!(row.get::<_, &str>("procedure"), PROCEDURE);
    assert_eq!(row.get::<_, Uuid>("token"), reserved.reservation.token);
    assert_eq!(row.get::<_, i32>("attempts"), 1);
    assert_eq!(row.get::<_, Uuid>("owner"), *reserved.reservation.owner.as_uuid());
    assert!(row.get::<_, bool>("lease_is_left"));

    let abandoned = Claim { lease: Duration::ZERO, ..abandoned };
    acquire(store, &abandoned).await;
    acquire(store, &unknown).await;
    abandon(store, &unknown).await;
    complete(store, &completed, &completion("done")).await;
    complete(store, &not_stored, &Completion { response: StoredResponse::NotStored, ..completion("") }).await;
    complete(store, &failed, &Completion { response: StoredResponse::Error("e".into()), ..completion("") }).await;
    complete(store, &expired, &Completion { retention: Duration::ZERO, ..completion("done") }).await;
    for (claim, state) in [
        (&abandoned, "abandoned"),
        (&unknown, "unknown"),
        (&completed, "completed"),
        (&not_stored, "not_stored"),
        (&failed, "failed"),
        (&expired, "absent"),
    ] {
        assert_eq!(operated.state(claim).await, state);
    }
    assert_eq!(operated.inspect(&expired).await.get::<_, Option<&str>>("procedure"), None);
    operated.drop_owner().await;
}

/// The keys of all users that have no outcome.
#[tokio::test]
async fn list_the_keys_without_an_outcome_without_knowing_whose_they_are() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [abandoned, unknown, reserved, completed, expired, old] = [(); 6].map(|()| any());
    let [abandoned, expired, old] = [abandoned, expired, old].map(|claim| Claim { lease: Duration::ZERO, ..claim });
    for claim in [&abandoned, &unknown, &reserved, &Claim { retention: Duration::ZERO, ..expired }, &old] {
        acquire(store, claim).await;
    }
    store.abandon(&unknown.reservation).await.expect("the store answers");
    complete(store, &completed, &completion("done")).await;
    // A UUIDv7 of long ago.
    let age =
        "UPDATE tenant.idempotency_keys SET id = '00000000-0000-7000-8000-000000000001' WHERE idempotency_key = $1";
    operated.superuser.query_typed(age, &[(old.reservation.key.as_uuid(), Type::UUID)]).await.expect("time");
    // Those of one millisecond are in no order.
    let ends = ["7000-8000-000000000000", "7800-8000-000000000000", "7fff-bfff-ffffffffffff"];
    for (claim, end) in [&abandoned, &unknown, &reserved].into_iter().zip(ends) {
        let order = "UPDATE tenant.idempotency_keys SET id = overlay(id::text PLACING $2 FROM 15)::uuid
                     WHERE idempotency_key = $1";
        let parameters: Parameters<'_> = &[(claim.reservation.key.as_uuid(), Type::UUID), (&end, Type::TEXT)];
        operated.superuser.query_typed(order, parameters).await.expect("an order");
    }

    let found = async |arguments: &str| {
        let list = format!("SELECT * FROM tenant.idempotency_list({arguments}) WHERE key_id IS NOT NULL");
        let rows = operated.operator.query(&list, &[]).await.expect("an answer");
        rows.iter().map(|row| (row.get("state"), row.get("token"))).collect::<Vec<(String, Uuid)>>()
    };
    let line = |state: &str, claim: &Claim| (state.to_owned(), claim.reservation.token);
    let recent = [line("abandoned", &abandoned), line("unknown", &unknown), line("reserved", &reserved)];
    assert_eq!(found("").await, recent);
    for lookback in ["NULL", "interval '178000000 years'", "interval '60 years'"] {
        let lookback = &format!("p_lookback => {lookback}");
        assert_eq!(found(lookback).await, [&[line("abandoned", &old)], &recent[..]].concat(), "{lookback}");
    }
    assert_eq!(found("p_limit => 1").await, recent[..1]);
    assert_eq!(found(&format!("'{PROCEDURE}'")).await, recent);
    assert_eq!(found("'/a.B/C'").await, []);

    // Its columns are valid arguments of the other two functions.
    let release = "SELECT r.outcome FROM tenant.idempotency_list() s,
                   tenant.idempotency_operator_release(s.key_id::text, s.owner::text, s.token) r WHERE s.key_id IS NOT NULL";
    let released = operated.operator.query(release, &[]).await.expect("an answer");
    assert!(released.iter().all(|row| row.get::<_, &str>(0) == "released") && released.len() == 3);
    assert_eq!(found("").await, []);
    operated.drop_owner().await;
}

/// Each page reads a part of the index, and the list is noted once.
#[tokio::test]
async fn list_the_keys_of_a_large_table_page_by_page() {
    let operated = Operated::new().await;
    let (first, last) = (any(), any());
    acquire(&operated.store, &first).await;
    let fill = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, token, expires)
                SELECT gen_random_uuid(), gen_random_uuid(), '/a.B/C', '\\x07', '', gen_random_uuid(), now() + interval '1 day'
                FROM generate_series(1, 12000)";
    operated.superuser.batch_execute(fill).await.expect("records");
    acquire(&operated.store, &last).await;
    let (mut reached, mut pages, mut keys) = (None::<Uuid>, Vec::new(), Vec::new());
    loop {
        let page = "SELECT * FROM tenant.idempotency_list(p_after => $1, p_seconds => 0)";
        let rows = operated.operator.query_typed(page, &[(&reached, Type::UUID)]).await.expect("a page");
        let (end, found) = rows.split_last().expect("the end");
        keys.extend(found.iter().map(|row| row.get::<_, Uuid>("key_id")));
        pages.push(end.get::<_, i64>("records"));
        reached = end.get("reached");
        if reached.is_none() {
            break;
        }
    }
    assert_eq!(pages, [5000, 5000, 2002, 0]);
    assert_eq!(keys, [&first, &last].map(|claim| *claim.reservation.key.as_uuid()));
    let whole = operated.operator.query_one("SELECT * FROM tenant.idempotency_list() WHERE key_id IS NULL", &[]).await;
    let whole = whole.expect("the end");
    assert_eq!((whole.get("records"), whole.get("reached")), (12002_i64, None::<Uuid>));
    let one = "tenant.idempotency_list(p_limit => 1) WHERE key_id IS NOT NULL OR reached IS NOT NULL";
    assert_eq!(count(&operated.operator, one).await, 2, "a key, and that there is more");
    assert_eq!(operated.audit().await.len(), 3, "each list once");
    operated.drop_owner().await;
}

#[tokio::test]
async fn see_how_the_tables_are() {
    let operated = Operated::new().await;
    let expired = Claim { retention: Duration::ZERO, lease: Duration::ZERO, ..any() };
    acquire(&operated.store, &any()).await;
    let overview =
        "SELECT o.*, o.oldest_expired <= clock_timestamp() AS is_expired FROM tenant.idempotency_overview() o";
    let nothing = operated.operator.query_one(overview, &[]).await.expect("a row");
    assert_eq!(nothing.get::<_, Option<bool>>("is_expired"), None);
    acquire(&operated.store, &expired).await;
    let transaction = open_transaction(&operated.store, &any()).await;
    operated.superuser.batch_execute("VACUUM ANALYZE tenant.idempotency_keys").await.expect("a vacuum");
    let seen = async || operated.operator.query_one(overview, &[]).await.expect("a row");
    // Before version 15, the server hears of it from another process.
    until("the vacuum is noted", async || seen().await.get::<_, Option<SystemTime>>("last_vacuum").is_some()).await;
    let row = seen().await;
    assert_eq!(row.get::<_, Option<bool>>("is_expired"), Some(true));
    let partitions = partitions().map_or(0, i32::from);
    assert_eq!((row.get("partitions"), row.get("estimated_rows")), (partitions, 2_i64));
    assert!(row.get::<_, Vec<String>>("migrations").contains(&"V9 rights".to_owned()));
    assert!(
        row.get::<_, i64>("table_bytes") > 0
            && row.get::<_, i64>("index_bytes") > 0
            && !row.get::<_, bool>("is_standby")
    );
    assert!(row.get::<_, i64>("unseen_sessions") > 0, "the table's owner has no right to see them");
    assert_eq!(row.get::<_, Option<i32>>("oldest_transaction_pid"), None);
    let grant = format!("GRANT pg_read_all_stats TO {}", operated.owner);
    operated.superuser.batch_execute(&grant).await.expect("the grant");
    let row = seen().await;
    assert_eq!(row.get::<_, i64>("unseen_sessions"), 0);
    assert!(row.get::<_, Option<i32>>("oldest_transaction_pid").is_some());
    transaction.roll_back().await;
    assert_eq!(operated.audit().await, Vec::<String>::new(), "it has no user's data");
    operated.drop_owner().await;
}

/// The transaction is shown with its connection, and its record once it is committed.
#[tokio::test]
async fn see_the_connection_whose_transaction_holds_a_key_and_do_not_release_it() {
    let operated = Operated::new().await;
    let running = any();
    let transaction = open_transaction(&operated.store, &running).await;
    let row = operated.inspect(&running).await;
    assert_eq!(row.get::<_, &str>("state"), "running");
    let pid: i32 = row.get("holder_pid");
    let activity = "SELECT usename::text FROM pg_stat_activity WHERE pid = $1 AND state = 'idle in transaction'";
    let user = operated.superuser.query_typed_one(activity, &[(&pid, Type::INT4)]).await.expect("the connection");
    assert_eq!(user.get::<_, &str>(0), tonic_idempotency_tests::API_LOGIN);
    assert!(row.get::<_, Option<&str>>("holder_application").is_some());
    let since = "SELECT holder_since IS NOT NULL FROM tenant.idempotency_inspect($1, $2)";
    let [key, user] = texts(&running);
    let sees_since = async || {
        let parameters: Parameters<'_> = &[(&key, Type::TEXT), (&user, Type::TEXT)];
        operated.operator.query_typed_one(since, parameters).await.expect("an answer").get::<_, bool>(0)
    };
    assert!(!sees_since().await, "the table's owner has no right to see it");
    let grant = format!("GRANT pg_read_all_stats TO {}", operated.owner);
    operated.superuser.batch_execute(&grant).await.expect("the grant");
    assert!(sees_since().await);

    for token in [Some(running.reservation.token), Some(Uuid::new_v4()), None] {
        assert_eq!(operated.release(&running, token).await, ("running".to_owned(), Some(pid)));
    }
    let committed = transaction.commit(Some(completion("done"))).await.expect("the store answers");
    assert_eq!(committed, CommitOutcome::Committed, "nothing has disturbed it");
    assert_eq!(operated.state(&running).await, "completed");

    // One that takes a reservation over, which stays as it is.
    let left = Claim { lease: Duration::ZERO, ..any() };
    acquire(&operated.store, &left).await;
    let transaction = open_transaction(&operated.store, &again(&left)).await;
    assert_eq!(operated.state(&left).await, "running");
    assert_eq!(operated.release(&left, Some(left.reservation.token)).await.0, "running");
    transaction.roll_back().await;
    until("it has ended", async || operated.state(&left).await == "abandoned").await;
    assert_eq!(operated.release(&left, Some(left.reservation.token)).await, ("released".to_owned(), None));
    operated.drop_owner().await;
}

/// A coordinator of several databases has prepared it, and is gone: it has no connection, and survives a restart of the server.
#[tokio::test]
async fn see_a_call_whose_transaction_is_prepared_and_how_to_end_it() {
    let operated = Operated::new().await;
    let held = Claim { lease: Duration::ZERO, ..any() };
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let gid = format!("it's {key}");
    // A record locks the row that it replaces.
    let prepare = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(tenant.idempotency_lock_id('{user}', '{key}'));
         SELECT FROM tenant.idempotency_keys FOR UPDATE; PREPARE TRANSACTION '{}'",
        gid.replace('\'', "''")
    );
    operated.superuser.batch_execute(&prepare).await.expect("it is prepared");

    let row = operated.inspect(&held).await;
    assert_eq!((row.get("state"), row.get("holder_gid"), row.get("holder_pid")), ("running", Some(&*gid), None::<i32>));
    assert!(row.get::<_, Option<SystemTime>>("holder_since").is_some());
    let look = format!(
        "SELECT state FROM tenant.idempotency_begin('{user}', '{key}', '{key}', '{PROCEDURE}', decode(repeat('07', 32), 'hex'), NULL, 60, 60,
             'rerun', 'in_progress', NULL, NULL, NULL, '-Infinity')"
    );
    assert_eq!(value::<String>(&operated.database.api().await, &look).await, "running");
    let token = held.reservation.token;
    assert_eq!(look_up(&operated.store, &held).await.state, KeyState::Running);
    let release =
        format!("SELECT outcome, hint FROM tenant.idempotency_operator_release('{key}', '{user}', '{token}')");
    operated.operator.batch_execute("SET statement_timeout = '5s'").await.expect("the setting");
    let row = operated.operator.query_typed_one(&release, &[]).await.expect("it does not wait");
    let (outcome, hint): (&str, &str) = (row.get(0), row.get(1));
    assert_eq!(outcome, "running");
    assert!(hint.contains("COMMIT PREPARED"), "{hint}");
    let roll_back = hint.rsplit_once(", or ").expect("both statements").1;
    operated.superuser.batch_execute(roll_back).await.expect("the statement ends it");
    assert_eq!(operated.state(&held).await, "abandoned");
    assert_eq!(operated.release(&held, Some(token)).await, ("released".to_owned(), None));
    operated.drop_owner().await;
}

/// A replay holds the lock of its key for a moment, too.
#[tokio::test]
async fn see_an_outcome_while_a_replay_looks_at_it() {
    let mut operated = Operated::new().await;
    let ended = any();
    complete(&operated.store, &ended, &completion("done")).await;
    let mut looking = operated.database.owner().await;
    let looking = looking.transaction().await.expect("a transaction");
    let [key, user] = texts(&ended);
    let lock = format!("SELECT pg_advisory_xact_lock(tenant.idempotency_lock_id('{user}', '{key}'))");
    looking.batch_execute(&lock).await.expect("the lock");
    let row = operated.inspect(&ended).await;
    assert_eq!((row.get("state"), row.get("holder_pid")), ("completed", None::<i32>));
    assert_eq!(operated.release(&ended, Some(ended.reservation.token)).await, ("completed".to_owned(), None));
    drop(looking);
    // An operator's own lock is not taken for that of a call.
    let held = any();
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let token = held.reservation.token;
    let transaction = operated.operator.transaction().await.expect("a transaction");
    let release = format!("SELECT tenant.idempotency_operator_release('{key}', '{user}', '{token}')");
    transaction.batch_execute(&release).await.expect("a release");
    let inspect = format!("SELECT state FROM tenant.idempotency_inspect('{key}', '{user}')");
    let state: String = value(transaction.client(), &inspect).await;
    assert_eq!(state, "absent");
    drop(transaction);
    operated.drop_owner().await;
}

#[tokio::test]
async fn find_a_key_by_the_texts_of_the_key_the_user_and_the_scope() {
    let operated = Operated::new().await;
    let caller = |user: &str, scope: Option<&str>| {
        let caller = Caller::new(UserId::from_text(user).expect("a user"));
        let scope = scope.map(|scope| Scope::from_text(scope).expect("a scope"));
        scope.map_or(caller.clone(), |scope| caller.in_scope(scope)).owner()
    };
    let key = *IdempotencyKey::new("order-17", KeyFormat::Any).expect("a key").id().as_uuid();
    let owners: [OwnerId; 2] = [caller("auth0|x", Some("acme")), caller("auth0|x", None)];
    let [scoped, unscoped] = owners.map(|owner| Claim { resource_type: None, ..claim(*owner.as_uuid(), key) });
    acquire(&operated.store, &scoped).await;
    acquire(&operated.store, &unscoped).await;
    for (arguments, claim) in [("'order-17', 'auth0|x', 'acme'", &scoped), ("'order-17', 'auth0|x'", &unscoped)] {
        let inspect = format!("SELECT token FROM tenant.idempotency_inspect({arguments})");
        let token: Uuid = value(&operated.operator, &inspect).await;
        assert_eq!(token, claim.reservation.token, "{arguments}");
    }
    for (arguments, outcome) in [
        ("'order-17', 'auth0|x', '{token}', 'globex'", "absent"),
        ("'order-18', 'auth0|x', '{token}', 'acme'", "absent"),
        ("'order-17', 'auth0|x', '{token}'", "other_token"),
        ("'order-17', 'auth0|x', '{token}', 'acme'", "released"),
    ] {
        let arguments = arguments.replace("{token}", &scoped.reservation.token.to_string());
        let release = format!("SELECT outcome FROM tenant.idempotency_operator_release({arguments})");
        let found: String = value(&operated.operator, &release).await;
        assert_eq!(found, outcome, "{arguments}");
    }
    for nothing in ["NULL, 'auth0|x'", "'order-17', NULL"] {
        let inspect = format!("SELECT tenant.idempotency_inspect({nothing})");
        let error = operated.operator.query_one(&inspect, &[]).await.expect_err("nothing is named");
        assert_eq!(error.code(), Some(&SqlState::NULL_VALUE_NOT_ALLOWED));
    }
    operated.drop_owner().await;
}
