//! Eviction of records by operators.

use bytes::Bytes;
use tonic_idempotency::store::StoredMessage;

use super::operated::{Operated, texts};
use crate::prelude::*;

const SECRET: &str = "4111111111111111";

/// An error that the layer has stored: its code, a message and details.
fn error(code: u8) -> Vec<u8> {
    let mut error = vec![8, code];
    for field in [2, 3] {
        error.extend([field << 3 | 2, u8::try_from(SECRET.len()).expect("a short text")]);
        error.extend(SECRET.as_bytes());
    }
    error
}

/// Returns the rest that an operator leaves of an error with this code.
fn erased(code: u8) -> StoredResponse {
    let text = "the content of this error was erased by an operator";
    let length = u8::try_from(text.len()).expect("a short text");
    StoredResponse::Error([&[8, code, 18, length], text.as_bytes()].concat().into())
}

fn message() -> StoredResponse {
    let message = Bytes::from_static(SECRET.as_bytes());
    StoredResponse::Message(StoredMessage { metadata: Some(message.clone()), message })
}

async fn ended(operated: &Operated, response: StoredResponse) -> Claim {
    let ended = any();
    complete(&operated.store, &ended, &Completion { response, ..completion("") }).await;
    ended
}

/// Makes a record so old that it may be deleted.
async fn age(operated: &Operated, claim: &Claim) {
    operated.set(claim, "completed = completed - interval '1 minute'").await;
}

/// Again has the same outcome, and other records keep theirs.
#[tokio::test]
async fn evict_each_outcome_so_that_nothing_of_its_content_is_left() {
    let operated = Operated::new().await;
    let mut unusual: Vec<Vec<u8>> = [&[][..], &[8], &[8, 0], &[8, 17], &[8, 0x85, 1], &[10, 5]].map(Vec::from).into();
    unusual.push(SECRET.into());
    let responses =
        [message(), StoredResponse::NotStored].into_iter().map(|response| (response, StoredResponse::NotStored));
    let errors = (1..=16).map(|code| (error(code), erased(code))).chain(unusual.into_iter().map(|it| (it, erased(2))));
    for (response, left) in responses.chain(errors.map(|(error, left)| (StoredResponse::Error(error.into()), left))) {
        let record = ended(&operated, response.clone()).await;
        let Reservation { owner, token, .. } = record.reservation;
        let beside = Claim { reservation: Reservation { owner, ..any().reservation }, ..any() };
        let namesake = Claim { reservation: Reservation { key: record.reservation.key, ..any().reservation }, ..any() };
        for other in [&beside, &namesake] {
            complete(&operated.store, other, &completion("another response")).await;
        }
        let before = operated.rows_with(SECRET).await;
        let first = operated.evict(&record, Some(token), false).await;
        assert_eq!((first.0.as_str(), &first), ("evicted", &operated.evict(&record, Some(token), false).await));
        assert_eq!((replay_of(&operated.store, &record).await.response, operated.rows_with(SECRET).await), (left, 0));
        assert_eq!(before > 0, format!("{response:?}").contains(SECRET), "{response:?}");
        for other in [&beside, &namesake] {
            assert_eq!(replay_of(&operated.store, other).await.response, StoredResponse::message("another response"));
        }
    }
    operated.drop_owner().await;
}

/// Such as a response that the server has sealed.
#[tokio::test]
async fn evict_what_a_record_without_a_response_has_beside_it() {
    let operated = Operated::new().await;
    let record = ended(&operated, StoredResponse::NotStored).await;
    operated.set(&record, &format!("response_metadata = '{SECRET}'")).await;
    assert_eq!(operated.rows_with(SECRET).await, 1);
    assert_eq!(operated.evict(&record, Some(record.reservation.token), false).await.0, "evicted");
    assert_eq!(operated.rows_with(SECRET).await, 0);
    operated.drop_owner().await;
}

/// A retry and a look-up still tell it.
#[tokio::test]
async fn evict_a_response_and_keep_the_id_of_its_resource() {
    let operated = Operated::new().await;
    let types = ResourceTypes::new([ResourceType::unreferenced("order")]);
    let store = PostgresStore::new(operated.database.pool_of_login(2).await, types);
    let created = Resource { resource_type: "order".to_owned(), id: Uuid::new_v4().into() };
    let record = Claim { resource_type: Some("order".to_owned()), ..any() };
    complete(&store, &record, &Completion { resource: Some(created.clone()), ..completion(SECRET) }).await;
    assert_eq!(operated.evict(&record, Some(record.reservation.token), false).await.0, "evicted");
    let replay = replay_of(&store, &record).await;
    assert_eq!((replay.response, replay.resource), (StoredResponse::NotStored, Some(created.id.clone())));
    let found = look_up(&store, &record).await;
    assert_eq!((found.state, found.resource), (KeyState::Completed, Some(created)));
    drop(store);
    operated.drop_owner().await;
}

/// Both look for the outcome of their call.
#[tokio::test]
async fn evict_a_response_that_its_server_does_not_record_again() {
    let operated = Operated::new().await;
    let record = ended(&operated, message()).await;
    operated.evict(&record, Some(record.reservation.token), false).await;
    assert_eq!(completed(&operated.store, &record, SECRET).await, CompleteOutcome::AlreadyCompleted);
    assert_eq!(operated.rows_with(SECRET).await, 0);
    let [key, user] = texts(&record);
    let token = record.reservation.token;
    let committed = format!("CALL tenant.idempotency_committed('{user}', '{key}', '{token}', NULL)");
    assert!(value::<bool>(&operated.database.api().await, &committed).await);
    operated.drop_owner().await;
}

#[tokio::test]
async fn do_not_evict_the_record_of_another_call_nor_a_call_without_an_outcome() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [reserved, unknown] = [(); 2].map(|()| any());
    let abandoned = Claim { lease: Duration::ZERO, ..any() };
    for claim in [&reserved, &unknown, &abandoned] {
        acquire(store, claim).await;
    }
    abandon(store, &unknown).await;
    let record = ended(&operated, message()).await;
    for run_again in [false, true] {
        for (claim, state) in [(&reserved, "reserved"), (&unknown, "unknown"), (&abandoned, "abandoned")] {
            for token in [Some(claim.reservation.token), None] {
                let (outcome, hint) = operated.evict(claim, token, run_again).await;
                assert_eq!(outcome, state);
                assert!(hint.contains("idempotency_operator_release"), "{hint}");
            }
            assert_eq!(operated.state(claim).await, state);
        }
        for token in [None, Some(Uuid::new_v4()), Some(reserved.reservation.token)] {
            assert_eq!(operated.evict(&record, token, run_again).await.0, "other_token");
        }
        assert_eq!(operated.evict(&any(), None, run_again).await.0, "absent");
    }
    assert_eq!(replay_of(store, &record).await.response, message());
    self::record(store, &reserved, "done").await;
    operated.drop_owner().await;
}

/// It has no token, and no time of its completion.
#[tokio::test]
async fn evict_a_record_of_the_go_interceptor_without_a_token() {
    let operated = Operated::new().await;
    let foreign = any();
    insert(&operated.superuser, &foreign, Some(SECRET)).await;
    assert_eq!(operated.evict(&foreign, Some(Uuid::new_v4()), false).await.0, "other_token");
    assert_eq!(operated.evict(&foreign, None, false).await.0, "evicted");
    assert_eq!(replay_of(&operated.store, &foreign).await.response, StoredResponse::NotStored);
    assert_eq!(operated.rows_with(SECRET).await, 0);
    assert_eq!(operated.evict(&foreign, None, true).await.0, "deleted");
    acquire(&operated.store, &foreign).await;
    operated.drop_owner().await;
}

/// Its content is in the table until it is swept.
#[tokio::test]
async fn evict_a_record_that_has_expired() {
    let operated = Operated::new().await;
    let record = ended(&operated, message()).await;
    operated.set(&record, "expires = now() - interval '1 second'").await;
    assert_eq!(operated.evict(&record, Some(Uuid::new_v4()), false).await.0, "absent");
    let transaction = open_transaction(&operated.store, &again(&record)).await;
    assert_eq!(operated.evict(&record, Some(record.reservation.token), false).await.0, "running");
    assert_eq!(operated.rows_with(SECRET).await, 1);
    roll_back(transaction).await;
    until("it has ended", async || operated.state(&record).await == "absent").await;
    let (outcome, hint) = operated.evict(&record, Some(record.reservation.token), false).await;
    assert_eq!((outcome.as_str(), operated.rows_with(SECRET).await), ("evicted", 0));
    assert!(hint.contains("has expired"), "{hint}");
    acquire(&operated.store, &again(&record)).await;
    operated.drop_owner().await;
}

#[tokio::test]
async fn delete_a_record_so_that_a_retry_runs_but_not_in_its_first_minute() {
    let operated = Operated::new().await;
    for response in [message(), StoredResponse::NotStored, StoredResponse::Error(error(9).into())] {
        let record = ended(&operated, response.clone()).await;
        let evict = async || operated.evict(&record, Some(record.reservation.token), true).await.0;
        operated.set(&record, "completed = now() - interval '50 seconds'").await;
        assert_eq!(evict().await, "too_early");
        assert_eq!(replay_of(&operated.store, &record).await.response, response);
        age(&operated, &record).await;
        assert_eq!(evict().await, "deleted");
        assert_eq!(evict().await, "absent");
        let retry = again(&record);
        acquire(&operated.store, &retry).await;
        assert_eq!(completed(&operated.store, &record, SECRET).await, CompleteOutcome::Fenced);
        self::record(&operated.store, &retry, "done").await;
    }
    operated.drop_owner().await;
}

/// The transaction is named, and a record that it may replace stays.
#[tokio::test]
async fn do_not_evict_while_a_transaction_holds_the_key() {
    let mut operated = Operated::new().await;
    let running = any();
    let transaction = open_transaction(&operated.store, &running).await;
    let pid = operated.inspect(&running).await.get::<_, Option<i32>>("holder_pid").expect("a connection");
    for run_again in [false, true] {
        let (outcome, hint) = operated.evict(&running, Some(running.reservation.token), run_again).await;
        assert_eq!(outcome, "running");
        assert!(hint.contains(&format!("pg_terminate_backend({pid})")), "{hint}");
    }
    committed(transaction, completion(SECRET)).await;

    // A replay holds the lock of its key for a moment, and changes nothing.
    age(&operated, &running).await;
    let mut looking = operated.database.owner().await;
    let looking = looking.transaction().await.expect("a transaction");
    let [key, user] = texts(&running);
    let lock = format!("SELECT pg_advisory_xact_lock(tenant.idempotency_lock_id('{user}', '{key}'))");
    looking.batch_execute(&lock).await.expect("the lock");
    let token = running.reservation.token;
    assert_eq!(operated.evict(&running, Some(token), true).await.0, "running");
    assert_eq!(operated.evict(&running, Some(token), false).await.0, "evicted");
    assert_eq!(operated.rows_with(SECRET).await, 0);
    // A transaction that has locked the row as well is not waited for.
    looking.batch_execute("SELECT FROM tenant.idempotency_keys FOR UPDATE").await.expect("the rows");
    operated.operator.batch_execute("SET statement_timeout = '5s'").await.expect("the setting");
    for run_again in [false, true] {
        assert_eq!(operated.evict(&running, Some(token), run_again).await.0, "running");
    }
    looking.rollback().await.expect("the end");

    // An operator's own lock is not taken for that of a call.
    let transaction = operated.operator.transaction().await.expect("a transaction");
    let evict =
        format!("SELECT outcome FROM tenant.idempotency_evict('{key}', '{user}', '{token}', p_run_again => true)");
    assert_eq!(value::<String>(transaction.client(), &evict).await, "deleted");
    assert_eq!(value::<String>(transaction.client(), &evict).await, "absent");
    drop(transaction);
    operated.drop_owner().await;
}

/// A reason that is too long fails the eviction, which changes nothing then.
#[tokio::test]
async fn evict_with_a_note_of_each_attempt() {
    let operated = Operated::new().await;
    let record = ended(&operated, message()).await;
    let [key, user] = texts(&record);
    let token = record.reservation.token;
    let evict = |length: u32| {
        format!(
            "SELECT outcome FROM tenant.idempotency_evict('{key}', '{user}', '{token}', NULL, repeat('x', {length}))"
        )
    };
    let error = operated.operator.query_one(&evict(4001), &[]).await.expect_err("too long");
    assert_eq!(error.code(), Some(&SqlState::STRING_DATA_RIGHT_TRUNCATION));
    assert_eq!(replay_of(&operated.store, &record).await.response, message());
    operated.evict(&record, None, false).await;
    operated.evict(&record, Some(token), true).await;
    operated.evict(&record, Some(token), false).await;
    age(&operated, &record).await;
    operated.evict(&record, Some(token), true).await;
    operated.evict(&record, Some(token), true).await;
    let running = any();
    let transaction = open_transaction(&operated.store, &running).await;
    operated.evict(&running, None, true).await;
    roll_back(transaction).await;
    let lines = [
        "completed other_token",
        "completed too_early",
        "completed evicted",
        "not_stored deleted",
        "absent absent",
        "running running",
    ];
    assert_eq!(operated.audit().await, lines.map(|line| format!("{OPERATOR} evict {line} a ticket")));
    assert_eq!(operated.rows_with(SECRET).await, 0, "it has no content");
    for nothing in [format!("NULL, '{user}'"), format!("'{key}', NULL")] {
        let evict = format!("SELECT tenant.idempotency_evict({nothing}, NULL)");
        let error = operated.operator.query_one(&evict, &[]).await.expect_err("nothing is named");
        assert_eq!(error.code(), Some(&SqlState::NULL_VALUE_NOT_ALLOWED));
    }
    operated.drop_owner().await;
}

#[tokio::test]
async fn evict_by_the_texts_of_the_key_the_user_and_the_scope() {
    let operated = Operated::new().await;
    let caller = Caller::new(UserId::from_text("auth0|x").expect("a user"));
    let owner = caller.in_scope(Scope::from_text("acme").expect("a scope")).owner();
    let key = Uuid::new_v4();
    let record = Claim { resource_type: None, ..claim(*owner.as_uuid(), key) };
    complete(&operated.store, &record, &completion(SECRET)).await;
    let token = record.reservation.token;
    for (scope, outcome) in [("'globex'", "absent"), ("NULL", "absent"), ("'acme'", "evicted")] {
        let evict = format!("SELECT outcome FROM tenant.idempotency_evict('{key}', 'auth0|x', '{token}', {scope})");
        assert_eq!(value::<String>(&operated.operator, &evict).await, outcome, "{scope}");
    }
    operated.drop_owner().await;
}
