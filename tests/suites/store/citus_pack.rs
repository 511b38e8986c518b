//! The pack for Citus fits the core: tested on a server without Citus, with stubs of its functions.

use std::collections::BTreeSet;

use crate::prelude::*;

const STUBS: &str = include_str!("citus_stubs.sql");

/// A database with the core, the limits and the pack, which ran twice; and the core's routines before it.
async fn database() -> (Database, Client, BTreeSet<String>) {
    let (database, mut owner) = Database::empty_with_owner().await;
    owner.batch_execute(STUBS).await.expect("the stubs");
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::limits(&owner, &Schema::default()).await.expect("the limits");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    let routines = texts(&owner, ROUTINES).await;
    for _ in 0..2 {
        owner.batch_execute(&migrations::distribution_sql(&Schema::default())).await.expect("the pack");
    }
    (database, owner, routines)
}

/// All routines of the layer, with what they take and return.
const ROUTINES: &str = "
    SELECT format('%s %s %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
    FROM pg_proc p WHERE p.pronamespace = 'tenant'::regnamespace";

/// The routines that a node has.
const DISTRIBUTED: &str = "
    SELECT p.proname::text FROM public.distributed_functions d JOIN pg_proc p ON p.oid = d.routine
    WHERE p.pronamespace = 'tenant'::regnamespace";

async fn texts(client: &Client, select: &str) -> BTreeSet<String> {
    client.query(select, &[]).await.expect(select).iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn has_the_routines_of_the_core() {
    let (_database, owner, core) = database().await;
    let with_pack = texts(&owner, ROUTINES).await;
    assert!(core.len() > 80 && core.is_subset(&with_pack), "{:?}", core.difference(&with_pack));
    let added: Vec<_> = with_pack.difference(&core).collect();
    assert_eq!(added, Vec::<&String>::new());
}

/// Each procedure does its work on a row in one planned call, which runs on the row's node. Arguments are plain names, because a node would
/// evaluate an expression without the coordinator's settings.
#[tokio::test]
async fn sends_every_function_of_a_row_whole() {
    let (_database, owner, _) = database().await;
    let of_rows = "SELECT proname::text FROM pg_proc WHERE proname LIKE 'idempotency!_%!_row' ESCAPE '!'";
    let sent = "
        SELECT p.proname::text FROM public.distributed_functions d JOIN pg_proc p ON p.oid = d.routine
        WHERE d.argument = 'p_user' AND d.is_forced AND d.colocated = 'tenant.idempotency_keys'
          AND p.proconfig @> ARRAY['search_path=pg_catalog, pg_temp']";
    let of_rows = texts(&owner, of_rows).await;
    assert!(of_rows.len() > 10, "{of_rows:?}");
    assert_eq!(texts(&owner, sent).await, of_rows);
    for routine in &of_rows {
        let calls = format!(
            "SELECT proname::text FROM pg_proc WHERE prosrc ~ '{routine}[(]' AND proname <> 'idempotency_write_statements'"
        );
        let planned = format!(
            "SELECT proname::text FROM pg_proc WHERE prosrc ~ 'SELECT [*] INTO [a-z_]+ FROM tenant.{routine}[(][^()]*[)];'"
        );
        let calls = texts(&owner, &calls).await;
        assert_eq!(
            (calls.len(), &texts(&owner, &planned).await),
            (if routine.ends_with("look_up_row") { 2 } else { 1 }, &calls)
        );
    }
}

/// A node has every function that is called there, directly or indirectly.
#[tokio::test]
async fn sends_what_a_node_needs() {
    let (_database, owner, _) = database().await;
    let there = texts(&owner, DISTRIBUTED).await;
    let sources = "
        SELECT coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid))
        FROM public.distributed_functions d JOIN pg_proc p ON p.oid = d.routine
        WHERE p.pronamespace = 'tenant'::regnamespace";
    let mut called = BTreeSet::new();
    for source in texts(&owner, sources).await {
        let names = source.split("tenant.").skip(1).filter_map(|rest| rest.split_once('('));
        let is_name =
            |name: &str| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_' || letter == '8');
        called.extend(names.map(|(name, _)| name.to_owned()).filter(|name| is_name(name)));
    }
    assert!(called.len() > 8, "{called:?}");
    assert_eq!(called.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The procedures as the pack has rewritten them.
#[tokio::test]
async fn keeps_the_protocol() {
    let (database, ..) = database().await;
    let store = PostgresStore::new(database.pool(4), ResourceTypes::none()).max_batch(1);
    let [reserved, released, begun] = [(); 3].map(|()| new_claim());
    acquire(&store, &reserved).await;
    extend(&store, &reserved, HOUR).await;
    record(&store, &reserved, "done").await;
    acquire(&store, &released).await;
    release(&store, &released).await;
    acquire(&store, &again(&released)).await;
    let transaction = open_transaction(&store, &begun).await;
    refusal(&store, &again(&begun)).await;
    committed(transaction, completion("done")).await;
    for done in [&reserved, &begun] {
        replay_of(&store, done).await;
    }
}
