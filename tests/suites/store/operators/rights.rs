//! The rights of operators, and the audit of their actions.

use super::operated::{Operated, texts};
use crate::prelude::*;

#[tokio::test]
async fn are_audited_with_their_names_also_when_nothing_is_released() {
    let operated = Operated::new().await;
    let held = any();
    acquire(&operated.store, &held).await;
    operated.inspect(&held).await;
    operated.release(&held, None).await;
    operated.release(&held, Some(held.reservation.token)).await;
    operated.release(&held, Some(held.reservation.token)).await;
    let lines = ["inspect reserved", "release reserved other_token a ticket", "release reserved released a ticket"];
    let expected = lines.iter().chain(&["release absent absent a ticket"]).map(|line| format!("{OPERATOR} {line}"));
    assert_eq!(operated.audit().await, expected.collect::<Vec<_>>());
    let of_key = "SELECT count(*) FROM tenant.idempotency_audit
                  WHERE idempotency_key = $1 AND user_id = $2 AND (token = $3 OR state <> 'released' AND action = 'release')";
    let Reservation { owner, key, token } = held.reservation;
    let parameters: Parameters<'_> =
        &[(key.as_uuid(), Type::UUID), (owner.as_uuid(), Type::UUID), (&token, Type::UUID)];
    let found: i64 = operated.superuser.query_typed_one(of_key, parameters).await.expect("the count").get(0);
    assert_eq!(found, 4);
    operated.drop_owner().await;
}

/// A role that may look at a key may do nothing else: neither read a table, nor write the audit, nor claim or sweep.
#[tokio::test]
async fn have_no_other_right() {
    let operated = Operated::new().await;
    for statement in [
        "SELECT FROM tenant.idempotency_keys",
        "DELETE FROM tenant.idempotency_keys",
        "SELECT FROM tenant.idempotency_audit",
        "DELETE FROM tenant.idempotency_audit",
        "UPDATE tenant.idempotency_audit SET reason = ''",
        "INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, state)
         VALUES ('inspect', gen_random_uuid(), gen_random_uuid(), '')",
        "SELECT tenant.idempotency_evict_row(gen_random_uuid(), gen_random_uuid(), NULL, false)",
        "SELECT tenant.idempotency_erase_row(gen_random_uuid(), 1, NULL)",
        "SELECT tenant.idempotency_seed()",
        "CALL tenant.idempotency_sweep(1, NULL)",
        "SELECT tenant.idempotency_grant_operator('public')",
        "CALL tenant.idempotency_release(gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), NULL)",
    ] {
        let error = operated.operator.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
    }
    let granted = format!(
        "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'tenant'::regnamespace
         AND has_function_privilege('{OPERATOR}', p.oid, 'EXECUTE') ORDER BY 1"
    );
    let granted: Vec<String> = values(&operated.superuser, &granted).await;
    let own = ["erase", "evict", "inspect", "list", "operation_key", "operator_release", "overview"]
        .map(|name| format!("idempotency_{name}"));
    assert_eq!(granted, own);

    // No other role may call these functions, not even the API's.
    let api = operated.database.api().await;
    for statement in [
        "SELECT tenant.idempotency_inspect('a', 'b')",
        "SELECT tenant.idempotency_operator_release('a', 'b', NULL)",
        "SELECT tenant.idempotency_evict('a', 'b', NULL)",
        "SELECT tenant.idempotency_erase('b')",
        "SELECT tenant.idempotency_list()",
        "SELECT tenant.idempotency_overview()",
        "SELECT FROM tenant.idempotency_audit",
    ] {
        let error = api.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
    }
    operated.drop_owner().await;
}

#[tokio::test]
async fn leave_the_settings_of_their_transaction_as_they_were() {
    let mut operated = Operated::new().await;
    let held = any();
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let transaction = operated.operator.transaction().await.expect("a transaction");
    let sql = format!(
        "SET LOCAL idempotency.owner = 'mine'; SET LOCAL app.current_user_id = 'too';
             SELECT tenant.idempotency_list(); SELECT tenant.idempotency_overview();
             SELECT tenant.idempotency_inspect('{key}', '{user}');
             SELECT tenant.idempotency_operator_release('{key}', '{user}', NULL);
             SELECT tenant.idempotency_evict('{key}', '{user}', NULL);
             SELECT tenant.idempotency_erase('{user}');"
    );
    transaction.batch_execute(&sql).await.expect("the operator's functions");
    let left = "SELECT concat(current_setting('idempotency.owner'), ' ', current_setting('app.current_user_id'),
                                  current_setting('app.idempotency_sight', true))";
    let left: String = value(transaction.client(), left).await;
    assert_eq!(left, "mine too");
    drop(transaction);
    operated.drop_owner().await;
}

#[tokio::test]
async fn have_the_functions_of_any_schema() {
    let schema = Schema::new("My-Billing").and_then(|schema| schema.table("Operations")).expect("names");
    let operated = Operated::with(&schema).await;
    let held = any();
    acquire(&operated.store, &held).await;
    let [key, user] = texts(&held);
    let token = held.reservation.token;
    let release =
        format!(r#"SELECT outcome FROM "My-Billing".idempotency_operator_release('{key}', '{user}', '{token}')"#);
    let outcome: String = value(&operated.operator, &release).await;
    assert_eq!(outcome, "released");
    operated.drop_owner().await;
}
