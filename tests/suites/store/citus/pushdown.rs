//! The nodes that run the statements of the page, by their plans.

use super::distributed::{API, Distributed, PAGE};

/// The statements of the page that explain, with the plans below them.
fn explained() -> Vec<(&'static str, &'static str)> {
    let blocks: Vec<&str> = PAGE.split("```").skip(1).step_by(2).collect();
    let pairs =
        blocks.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("sql\n")?, pair[1].strip_prefix("text\n")?)));
    pairs.filter(|(statement, _)| statement.starts_with("EXPLAIN")).collect()
}

/// Without the numbers of shards, which follow names: `orders_102013`.
fn without_shards(plan: &str) -> String {
    let mut parts = plan.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let part = if part.len() - rest.len() >= 6 { rest } else { part };
        format!("{before}_{part}")
    })
}

/// The whole call of a function goes to the node of its first argument, and a handler's statement to the same.
#[tokio::test]
async fn the_page_shows_what_runs_on_the_node_of_the_row() {
    let Some(distributed) = Distributed::take().await else { return };
    let mut api = distributed.connect(&distributed.coordinator, API).await;
    let explained = explained();
    assert_eq!(explained.len(), 2, "{explained:?}");
    let mut nodes = Vec::new();
    for (statement, shown) in explained {
        // In a transaction, as calls are.
        let transaction = api.transaction().await.expect("a transaction");
        let rows = transaction.query(statement.trim_end().trim_end_matches(';'), &[]).await.expect("a plan");
        let plan: String = rows.iter().map(|row| format!("{}\n", row.get::<_, &str>(0))).collect();
        let node = distributed.workers.iter().position(|node| plan.contains(&format!("port={} ", node.port)));
        let node = node.unwrap_or_else(|| panic!("no worker runs it: {plan}"));
        let here = &distributed.workers[node];
        let here = format!("host={} port={} dbname={}", here.host, here.port, distributed.name);
        let plan = plan.replace(&here, "host=worker-2.example port=5432 dbname=my_database");
        assert_eq!(without_shards(&plan), without_shards(shown));
        nodes.push(node);
    }
    assert_eq!(nodes[0], nodes[1], "the record and the order are on different nodes");
}
