//! Transactional mode: the handler's rows and the record of its key are committed together or not at all.

use super::{
    call::{Ended, insert, of, open, open_with, order, ordering},
    distributed::{API, Distributed, OWNER},
};
use crate::prelude::*;

#[tokio::test]
async fn an_order_and_its_record_are_committed_together() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let first = of(Uuid::new_v4());
    assert!(matches!(order(&store, &first).await.expect("the store answers"), Ended::Committed));
    assert_eq!(distributed.orders_and_records().await, (1, 1));
    match order(&store, &again(&first)).await.expect("the store answers") {
        Ended::Refused(ClaimOutcome::Replay(replay)) => {
            assert_eq!(replay.response, StoredResponse::message("ordered"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(distributed.orders_and_records().await, (1, 1));
}

/// The record is refused because another call was recorded meanwhile: the order goes with it.
#[tokio::test]
async fn an_order_whose_record_is_refused_is_rolled_back() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let first = of(Uuid::new_v4());
    let transaction = ordering(&store, &first).await;
    // As another system does, without the key's lock.
    insert_into(&distributed.superuser().await, "tenant.idempotency_keys", &first, Some("other")).await;
    assert_eq!(ended(transaction, completion("mine")).await, CommitOutcome::Superseded);
    assert_eq!(distributed.orders_and_records().await, (0, 1));
}

/// Rows of other users are on other nodes: Citus commits them in two phases.
#[tokio::test]
async fn orders_on_all_nodes_are_committed_with_the_record_or_not_at_all() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    for commits in [false, true] {
        let user = Uuid::new_v4();
        let call = of(user);
        let (transaction, handle) = open(&store, &call).await.expect("the key is free");
        // Without the user's policy: an administrator's handler.
        for _ in 0..12 {
            let other = Uuid::new_v4();
            let act =
                format!("SET LOCAL citus.propagate_set_commands = 'local'; SET LOCAL app.current_user_id = '{other}'");
            for statement in act.split(';') {
                handle.batch_execute(statement).await.expect("another user");
            }
            insert(&handle, other, Uuid::new_v4()).await.expect("an order");
        }
        drop(handle);
        if commits {
            committed(transaction, completion("all")).await;
            assert_eq!(distributed.orders_and_records().await, (12, 1));
        } else {
            transaction.roll_back().await;
            assert_eq!(distributed.orders_and_records().await, (0, 0));
        }
    }
}

/// Each has read the row that the other writes. The node reports the conflict to the statement that writes the record.
#[tokio::test]
async fn one_of_two_transactions_on_a_node_that_are_not_serializable_is_committed() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let user = Uuid::new_v4();
    let options = || TransactionOptions { isolation: Isolation::Serializable, ..TransactionOptions::default() };
    let mut opened = Vec::new();
    for _ in 0..2 {
        let (transaction, handle) = open_with(&store, &of(user), options()).await.expect("the key is free");
        handle.query_one("SELECT count(*) FROM app.orders", &[]).await.expect("the orders");
        opened.push((transaction, handle));
    }
    let mut ended = Vec::new();
    for (_, handle) in &opened {
        insert(handle, user, Uuid::new_v4()).await.expect("an order");
    }
    for (transaction, handle) in opened {
        drop(handle);
        ended.push(transaction.commit(Some(completion("ordered"))).await);
    }
    assert!(matches!(ended[0], Ok(CommitOutcome::Committed)), "{ended:?}");
    assert_eq!(ended[1].as_ref().expect_err("a conflict").kind(), StoreErrorKind::Conflict, "{ended:?}");
    assert_eq!(distributed.orders_and_records().await, (1, 1));
}

/// A call without a key has its user on all nodes, too.
#[tokio::test]
async fn a_transaction_without_a_key_has_its_user_on_the_nodes() {
    let Some(distributed) = Distributed::take().await else { return };
    let store = distributed.store();
    let user = Uuid::new_v4();
    let session = CallSession { user: Some(user), settings: None };
    let owned = Transaction::begin_on(&store, &session).await.expect("a transaction");
    insert(&owned, user, Uuid::new_v4()).await.expect("an order of the user's own");
    let refused = insert(&owned, Uuid::new_v4(), Uuid::new_v4()).await.expect_err("an order of somebody else");
    assert!(format!("{refused:?}").contains("row-level security"), "{refused:?}");
}

/// A call writes a note to a table of the coordinator, which refuses to commit it, because another transaction is committed first and the two
/// are not serializable. Returns the number of the call's notes, and of its records.
async fn notes_and_records_of_a_refused_call(distributed: &Distributed, table: &str) -> (i64, usize) {
    let of_call = distributed.connect(&distributed.coordinator, API).await;
    let other = distributed.connect(&distributed.coordinator, API).await;
    let (begin, read) = ("BEGIN ISOLATION LEVEL SERIALIZABLE", format!("SELECT count(*) FROM {table}"));
    let id = Uuid::new_v4();
    let write = format!("INSERT INTO {table} VALUES ('{id}')");
    let request = "decode(repeat('07', 32), 'hex')";
    let claim = format!(
        "SELECT tenant.idempotency_begin('{id}', '{id}', '{id}', '{PROCEDURE}', {request}, NULL, 60, 60, 'rerun', 'in_progress',
             NULL, '{id}', NULL, 'Infinity')"
    );
    let record = format!(
        "SELECT tenant.idempotency_commit('{id}', '{id}', '{id}', '{PROCEDURE}', {request}, NULL, 60, 'rerun', 'in_progress', 'done',
             false, NULL, NULL, 86400, NULL, NULL, gen_random_uuid())"
    );
    for statement in [begin, &claim, &read, &write, &record] {
        of_call.batch_execute(statement).await.expect("the call runs");
    }
    for statement in [begin, &read, &format!("INSERT INTO {table} VALUES (gen_random_uuid())"), "COMMIT"] {
        other.batch_execute(statement).await.expect("the other transaction is committed");
    }
    let refused = of_call.batch_execute("COMMIT").await.expect_err("the call is not committed");
    assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{refused:?}");
    let notes = format!("{read} WHERE id = '{id}'");
    let notes = distributed.superuser().await.query_one(&notes, &[]).await.expect("a count").get(0);
    (notes, distributed.orders_and_records().await.1)
}

/// Makes a table of notes on the coordinator.
async fn make_notes(distributed: &Distributed, name: &str) -> String {
    let table = format!("app.{name}_{}", Uuid::new_v4().simple());
    let owner = distributed.connect(&distributed.coordinator, OWNER).await;
    let make = format!("CREATE TABLE {table} (id uuid PRIMARY KEY); GRANT SELECT, INSERT ON {table} TO {API}");
    owner.batch_execute(&make).await.expect("the notes");
    table
}

#[tokio::test]
async fn a_local_table_that_citus_manages_is_in_the_transaction() {
    let Some(distributed) = Distributed::take().await else { return };
    let table = make_notes(&distributed, "managed").await;
    let owner = distributed.connect(&distributed.coordinator, OWNER).await;
    execute(&owner, &format!("SELECT citus_add_local_table_to_metadata('{table}')")).await;
    assert_eq!(notes_and_records_of_a_refused_call(&distributed, &table).await, (0, 0));
}

/// A promise that Citus does not keep, which the page says.
#[tokio::test]
async fn a_table_that_citus_does_not_know_is_not_in_the_transaction() {
    let Some(distributed) = Distributed::take().await else { return };
    let table = make_notes(&distributed, "unknown").await;
    assert_eq!(notes_and_records_of_a_refused_call(&distributed, &table).await, (0, 1), "Citus keeps the promise");
}
