//! The nodes that run statements, by their plans.

use super::distributed::{API, Distributed};

/// A claim, and a handler's statement.
const STATEMENTS: [&str; 2] = [
    "EXPLAIN (COSTS OFF) SELECT * FROM tenant.idempotency_claim_row('0b8f4a5e-5d0c-4b77-9a3e-3f1d5a1c7e10', \
     '8e03978e-40d5-43e8-bc93-6894a57f9324', 'd3a1f0c2-94b3-4d9e-8f51-b1a2f7a4c0de', '/shop.v1.Orders/Create', '\\x07', NULL, 60, 86400, \
     'rerun', 'in_progress', NULL)",
    "EXPLAIN (COSTS OFF) SELECT name FROM app.orders WHERE user_id = '0b8f4a5e-5d0c-4b77-9a3e-3f1d5a1c7e10' \
     AND id = '5c0d8a52-7a53-4d0e-8d55-0f3c9b7f2a41'",
];

/// The whole call of a function goes to the node of its first argument, and a handler's statement to the same, with the policy.
#[tokio::test]
async fn run_on_the_node_of_the_row() {
    let Some(distributed) = Distributed::take().await else { return };
    let mut api = distributed.connect(&distributed.coordinator, API).await;
    let mut nodes = Vec::new();
    for (statement, has) in STATEMENTS.into_iter().zip(["Function Scan on idempotency_claim_row", "One-Time Filter"]) {
        // In a transaction, as calls are.
        let transaction = api.transaction().await.expect("a transaction");
        let rows = transaction.query(statement, &[]).await.expect("a plan");
        let plan: String = rows.iter().map(|row| format!("{}\n", row.get::<_, &str>(0))).collect();
        assert!(plan.contains("Task Count: 1\n") && plan.contains(has), "{plan}");
        let node = distributed.workers.iter().position(|node| plan.contains(&format!("port={} ", node.port)));
        nodes.push(node.unwrap_or_else(|| panic!("no worker runs it: {plan}")));
    }
    assert_eq!(nodes[0], nodes[1], "the record and the order are on different nodes");
}
