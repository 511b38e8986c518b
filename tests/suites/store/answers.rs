//! The store's classification of the server's answers: which are lost, which are tried again, and which are final.

use StoreErrorKind::{Conflict, Interrupted, Overloaded, Refused, Unreachable};
use tcp_proxy::Direction;
use tonic_idempotency::store::{
    Deadpool,
    driver::{Connection as _, ConnectionPool as _, Statement},
};

use crate::prelude::*;

/// The report of an operation of which each attempt fails in the same way.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    kind: StoreErrorKind,
    may_have_happened: bool,
    tried_again: bool,
}

/// Runs an operation whose statement fails like this each time, for at most this time.
async fn report_of(database: &Database, failure: &str, timeout: Duration) -> Report {
    let owner = database.owner().await;
    let sql = format!(
        "DROP SEQUENCE IF EXISTS attempts; CREATE SEQUENCE attempts; GRANT USAGE ON SEQUENCE attempts TO public;
             CREATE OR REPLACE PROCEDURE tenant.idempotency_extend(
                 p_user uuid, p_key uuid, p_token uuid, p_lease double precision, OUT extended boolean
             ) LANGUAGE plpgsql SECURITY DEFINER AS
                 $$ BEGIN PERFORM nextval('public.attempts'); {failure}; extended := true; END $$"
    );
    owner.batch_execute(&sql).await.expect(failure);
    let claim = new_claim();
    let error = patient(database.pool(2)).timeout(timeout).extend(&claim.reservation, HOUR).await.expect_err(failure);
    let attempts: i64 = value(&owner, "SELECT last_value FROM attempts").await;
    Report { kind: error.kind(), may_have_happened: error.may_have_happened(), tried_again: attempts > 1 }
}

#[tokio::test]
async fn each_kind_of_failure_is_told_from_the_others() {
    let database = Database::new().await;
    let table = [
        // Lost: another server is away, as that of a dblink. This one answers on the same connection.
        ("08000 08003 08006 08P01 57P01 57P02 57P03", Overloaded, true, true),
        // Lost as well: the server has ended only the connection, or is broken.
        ("40003 57P04 57P05 58000 58030 XX000 XX001 XX002", Refused, true, true),
        // A standby: another connection may lead to its primary.
        ("25006", Overloaded, false, true),
        // The connection came with an open transaction: the next may come without.
        ("25001 25P02 2D000", Refused, false, true),
        // Lost against another transaction.
        ("40001 40P01", Conflict, false, true),
        // The server is busy, or the statement took too long.
        ("53000 53100 53200 53300 53400 57014", Overloaded, false, false),
        // As of a prepared statement that is stale.
        ("26000 42P05", Refused, false, true),
        // Refused, and rolled back.
        (
            "0A000 22000 22P02 23502 23503 23505 23514 28000 40000 40002 42501 42703 42883 42P01 54000 55000 P0001 TI002",
            Refused,
            false,
            false,
        ),
    ];
    for (codes, kind, may_have_happened, tried_again) in table {
        for code in codes.split(' ') {
            let report = report_of(&database, &raise(code), Duration::from_secs(30)).await;
            assert_eq!(report, Report { kind, may_have_happened, tried_again }, "{code}");
        }
    }
}

fn raise(code: &str) -> String {
    format!("RAISE EXCEPTION 'no' USING ERRCODE = '{code}'")
}

/// A FATAL ends the connection, and the server answers on others. A lock may be had later.
#[tokio::test]
async fn an_end_of_the_connection_and_a_lock_are_tried_again_until_the_deadline() {
    let database = Database::new().await;
    let end = "PERFORM pg_terminate_backend(pg_backend_pid())";
    for failure in [end, &*raise("55P03")] {
        let report = report_of(&database, failure, Duration::from_secs(1)).await;
        assert_eq!(report, Report { kind: Overloaded, may_have_happened: true, tried_again: true }, "{failure}");
    }
}

/// Has the first call of a function return no row, as an answer to another statement may have none.
const NO_ROW_AT_FIRST: &str = "
    CREATE SEQUENCE attempts; GRANT USAGE ON SEQUENCE attempts TO public;
    CREATE SEQUENCE connections; GRANT USAGE ON SEQUENCE connections TO public;
    DO $$
    DECLARE
        v_function regprocedure := (SELECT oid FROM pg_proc WHERE proname = 'idempotency_begin');
        v_arguments text := pg_get_function_arguments(v_function);
        v_inputs text := (SELECT string_agg('$' || n, ', ') FROM generate_series(1, 14) n);
    BEGIN
        EXECUTE format('ALTER FUNCTION %s RENAME TO begin_of_before', v_function);
        EXECUTE format(
            'CREATE FUNCTION tenant.idempotency_begin(%s) RETURNS SETOF record LANGUAGE plpgsql AS %L', v_arguments,
            format('BEGIN IF nextval(''public.attempts'') > 1 THEN RETURN QUERY SELECT * FROM tenant.begin_of_before(%s); END IF; END', v_inputs));
    END $$";

/// Behind a pooler that mixes up answers, the answer to this statement would come next on that connection.
#[tokio::test]
async fn an_answer_to_another_statement_is_a_lost_one_and_its_connection_is_closed() {
    let (database, owner) = Database::with_owner().await;
    owner.batch_execute(NO_ROW_AT_FIRST).await.expect("the function is replaced");
    let pool = database.pool_with(1, "SELECT nextval('public.connections')");
    let claim = new_claim();
    let begun = patient(pool)
        .common_path(false)
        .begin(&claim, TransactionOptions::default())
        .await
        .expect("the store asks again");
    let BeginOutcome::Open { transaction, taken_over: false } = begun else { panic!("expected a transaction") };
    transaction.roll_back().await;
    let count = async |sequence| -> i64 {
        owner.query_one(&format!("SELECT last_value FROM {sequence}"), &[]).await.expect("a count").get(0)
    };
    assert_eq!((count("attempts").await, count("connections").await), (2, 2));
}

/// An error of the client itself says nothing about the network.
#[tokio::test]
async fn what_the_client_fails_at_is_no_lost_connection() {
    let database = Database::new().await;
    let driver = Deadpool::from(database.pool(1));
    let mut connection = driver.acquire().await.expect("a connection");
    let Err(error) = connection.query(Statement { sql: "SELECT '\0'", parameters: &[] }).await else {
        panic!("a NUL cannot be sent")
    };
    assert!(!error.is_connection_lost() && error.code().is_none(), "{error}");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    database.owner().await.batch_execute(end).await.expect("its end");
    let one = Statement { sql: "SELECT 1", parameters: &[] };
    for _ in 0..2 {
        assert!(connection.query(one).await.is_err_and(|error| error.is_connection_lost()));
    }
}

/// tokio-postgres tells its kinds of errors only by their texts, and the drivers on it by four of them: this fails if they change.
#[tokio::test]
async fn the_kinds_of_errors_of_tokio_postgres_have_the_texts_that_are_known() {
    let database = Database::new().await;
    let client = database.owner().await;
    let row = client.query_one("SELECT 1 AS one", &[]).await.expect("a row");
    let text = |error: tokio_postgres::Error| error.to_string();
    let of_the_client = [
        text("nonsense".parse::<tokio_postgres::Config>().expect_err("no configuration")),
        text(client.batch_execute("SELECT '\0'").await.expect_err("a NUL")),
        text(client.query("SELECT $1::int4", &[&"one"]).await.expect_err("not a number")),
        text(client.query("SELECT $1::int4", &[]).await.expect_err("no parameter")),
        text(client.query_one("SELECT 1 WHERE false", &[]).await.expect_err("no row")),
        text(row.try_get::<_, &str>("one").expect_err("not a text")),
        text(row.try_get::<_, i32>("two").expect_err("no such column")),
    ];
    assert_eq!(
        of_the_client.map(|text| text.split(':').next().unwrap_or_default().to_owned()),
        [
            "invalid connection string",
            "error encoding message to server",
            "error serializing parameter 0",
            "expected 1 parameters but got 0",
            "query returned an unexpected number of rows",
            "error deserializing column 0",
            "invalid column `two`",
        ]
    );
    let nowhere = "host=localhost port=1".parse::<tokio_postgres::Config>().expect("a configuration");
    let refused = nowhere.connect(tokio_postgres::NoTls).await.err().expect("nobody listens");
    assert!(text(refused).starts_with("error connecting to server"));
    drop(client.batch_execute("SELECT pg_terminate_backend(pg_backend_pid())").await);
    let closed = client.batch_execute("SELECT 1").await.expect_err("no connection");
    assert!(text(closed).starts_with("connection closed"));
    assert!(text(tokio_postgres::Error::__private_api_timeout()).starts_with("timeout waiting for server"));
}

#[tokio::test]
async fn a_missing_function_or_grant_is_a_refusal_and_not_asked_for_again() {
    let (database, owner) = Database::with_owner().await;
    let store = database.store();
    let claim = new_claim();
    for broken in [
        "REVOKE INSERT ON tenant.idempotency_keys FROM idempotency_tests_api",
        "REVOKE USAGE ON SCHEMA tenant FROM idempotency_tests_api",
        "DROP PROCEDURE tenant.idempotency_claim",
    ] {
        owner.batch_execute(broken).await.expect(broken);
        let error = store.claim(&claim).await.expect_err(broken);
        assert_eq!((error.kind(), error.may_have_happened()), (Refused, false), "{broken}");
    }
}

/// A login that the server refuses is not a server that cannot be asked.
#[tokio::test]
async fn a_login_that_is_refused_is_a_refusal() {
    let database = Database::new().await;
    let claim = new_claim();
    for (pool, kind) in [
        (database.pool_with(1, "SET ROLE nobody_knows"), Refused),
        (database.pool_with(1, "DO $$ BEGIN RAISE 'full' USING ERRCODE = '53300'; END $$"), Overloaded),
        (database.pool_with(1, "DO $$ BEGIN RAISE 'starting' USING ERRCODE = '57P03'; END $$"), Unreachable),
        // At the deadline the pool's only connection is being made: it is not in use.
        (
            database
                .pool_with(1, "DO $$ BEGIN PERFORM pg_sleep(0.7); RAISE 'starting' USING ERRCODE = '57P03'; END $$"),
            Unreachable,
        ),
        (pool_of_another_database(&database), Refused),
    ] {
        let error = patient(pool).timeout(Duration::from_secs(1)).claim(&claim).await.expect_err("no connection");
        assert_eq!((error.kind(), error.may_have_happened()), (kind, false), "{error:?}");
    }
}

fn pool_of_another_database(database: &Database) -> Pool {
    let mut config: tokio_postgres::Config = database.url().parse().expect("an address");
    config.dbname("no_such_database");
    let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
    Pool::builder(manager).max_size(1).build().expect("a pool")
}

/// PgBouncer answers `08P01` if it loses the server's connection, and as long as it has none.
#[tokio::test]
async fn a_claim_that_stands_is_not_reported_as_refused_behind_a_pgbouncer_that_lost_its_server() {
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let database = Database::new().await;
    let (_bouncer, proxy, pool) = database.pool_through_bouncer_and_proxy(4).await;
    let store = patient(pool);
    acquire(&store, &new_claim()).await;
    // The server has carried the claim out when its answer is cut off.
    let cut = Cut { all: true, moment: Moment::Bytes { direction: Direction::Answers, left: 0 } };
    proxy.cut_later(cut, || ());

    let first = new_claim();
    acquire(&store, &first).await;

    assert_in_flight(&store, &first).await;

    proxy.cut();
    let error = store.timeout(Duration::from_secs(2)).claim(&again(&first)).await.expect_err("no server");
    assert!(error.kind().is_unavailable(), "{error:?}");
}

/// The claim was sent, its answer was lost, and nothing could be asked then.
#[tokio::test]
async fn a_lost_answer_is_remembered_when_there_is_no_connection_any_more() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(2).await;
    let store = PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(1));
    let proxy = std::sync::Arc::new(proxy);
    acquire(&store, &new_claim()).await;
    let gone = std::sync::Arc::clone(&proxy);
    let cut = Cut { all: true, moment: Moment::AfterStatement("idempotency_claim(") };
    proxy.cut_later(cut, move || gone.cut());

    let first = new_claim();
    let error = store.claim(&first).await.expect_err("no connection");
    assert_eq!((error.kind(), error.may_have_happened()), (Interrupted, true));

    proxy.mend();
    assert_in_flight(&store, &first).await;
}

/// A conflict is over soon.
#[tokio::test]
async fn an_operation_that_loses_against_others_is_tried_again_until_it_wins() {
    let (database, store) = Database::with_store().await;
    let first = new_claim();
    acquire(&store, &first).await;
    let owner = database.owner().await;
    let sql = "CREATE SEQUENCE attempts; GRANT USAGE ON SEQUENCE attempts TO public;
             CREATE FUNCTION tenant.lose() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN
                     IF nextval('public.attempts') < 6 THEN
                         RAISE EXCEPTION 'no' USING ERRCODE = '40001';
                     END IF;
                     RETURN NEW;
                 END $$;
             CREATE TRIGGER lose BEFORE UPDATE ON tenant.idempotency_keys FOR EACH ROW EXECUTE FUNCTION tenant.lose()";
    execute(&owner, sql).await;
    store.complete(&first.reservation, &completion("done")).await.expect("it wins in the end");
}
