//! Everything that the migrations make, in a database with settings or an encoding of its own.

use crate::batches::statements;
use crate::prelude::*;

/// Settings with which everything works: a name and a value of `ALTER DATABASE … SET`.
pub(crate) const SETTINGS: &[&str] = &[
    "array_nulls = off",
    "backslash_quote = off",
    "bytea_output = escape",
    "check_function_bodies = off",
    "client_min_messages = error",
    "DateStyle = 'SQL, DMY'",
    "default_transaction_deferrable = on",
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_isolation = serializable",
    "enable_bitmapscan = off",
    "enable_indexscan = off",
    "enable_nestloop = off",
    "escape_string_warning = on",
    "extra_float_digits = -15",
    "from_collapse_limit = 1",
    "idle_in_transaction_session_timeout = '1h'",
    "IntervalStyle = sql_standard",
    "jit_above_cost = 0",
    "join_collapse_limit = 1",
    "lock_timeout = '1s'",
    "plan_cache_mode = force_custom_plan",
    "plan_cache_mode = force_generic_plan",
    "plpgsql.check_asserts = off",
    "plpgsql.extra_errors = 'all'",
    "plpgsql.extra_warnings = 'all'",
    "plpgsql.variable_conflict = use_column",
    "plpgsql.variable_conflict = use_variable",
    "quote_all_identifiers = on",
    "search_path = ''",
    "standard_conforming_strings = off",
    "statement_timeout = '30s'",
    "synchronize_seqscans = off",
    "TimeZone = 'Asia/Kathmandu'",
    "transform_null_equals = on",
    "xmlbinary = hex",
    "xmloption = document",
];

/// The encodings that a server can have, but for `MULE_INTERNAL`: a driver speaks UTF-8, and PostgreSQL cannot convert that one.
pub(crate) const ENCODINGS: &str = "\
    EUC_CN EUC_JIS_2004 EUC_JP EUC_KR EUC_TW ISO_8859_5 ISO_8859_6 ISO_8859_7 ISO_8859_8 KOI8R KOI8U LATIN1 LATIN10 \
    LATIN2 LATIN3 LATIN4 LATIN5 LATIN6 LATIN7 LATIN8 LATIN9 SQL_ASCII UTF8 WIN1250 WIN1251 WIN1252 WIN1253 WIN1254 \
    WIN1255 WIN1256 WIN1257 WIN1258 WIN866 WIN874";

/// Makes a database with a setting, and does everything there.
pub(crate) async fn works_with_setting(setting: &str) {
    let database = Database::empty().await;
    let owner = database.owner().await;
    match try_to_set(&owner, &database_name(&owner).await, setting).await {
        Err(error) if is_gone(&owner, &error).await => {}
        set => {
            set.expect(setting);
            works(&database).await;
        }
    }
}

/// Returns whether a server that is newer than the newest that the settings were written for refuses one: it has dropped it, or all values but one.
async fn is_gone(client: &Client, error: &Error) -> bool {
    let version = "SELECT current_setting('server_version_num')::int4 >= 190000";
    let refused = [SqlState::UNDEFINED_OBJECT, SqlState::FEATURE_NOT_SUPPORTED];
    value(client, version).await && error.code().is_some_and(|code| refused.contains(code))
}

/// Makes a database of an encoding, and does everything there.
pub(crate) async fn works_in_encoding(encoding: &str) {
    let other = Database::empty().await;
    let (owner, name) = (other.owner().await, format!("idempotency_{}", Uuid::new_v4().simple()));
    let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
    owner.batch_execute(&create).await.expect(encoding);
    let url = other.url().rsplit_once('/').map(|(server, _)| format!("{server}/{name}")).expect("a URL");
    works(&Database::of(&url)).await;
    owner.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("it goes");
}

pub(crate) async fn try_to_set(owner: &Client, database: &str, setting: &str) -> Result<(), Error> {
    owner.batch_execute(&format!("ALTER DATABASE {database} SET {setting}")).await
}

pub(crate) async fn database_name(client: &Client) -> String {
    value(client, "SELECT quote_ident(current_database())").await
}

/// The migrations by another runner and by the crate, a resource type, the grants, all calls alone and together, the operators'
/// functions; and once more after a move to partitions.
async fn works(database: &Database) {
    let mut owner = database.owner().await;
    for migration in migrations::all(&Schema::default()) {
        owner.batch_execute(migration.sql()).await.expect("a migration");
    }
    let types = set_up(&mut owner).await;
    let store = PostgresStore::new(database.pool_of_login(4).await, types).timeout(Duration::from_secs(30));
    let pool = database.pool_of_login(1).await;
    for partitioned in [false, true] {
        if partitioned {
            migrations::move_to_partitions(&owner, &Schema::default(), 2).await.expect("a move");
        }
        reserved(&store, &owner).await;
        together(&pool).await;
        transactional(&store).await;
        operated(&store, &owner).await;
    }
}

/// Runs the migrations, registers a type of resources, and grants.
pub(crate) async fn set_up(owner: &mut Client) -> ResourceTypes {
    let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
    migrations::run(owner, &Schema::default()).await.expect("the migrations run");
    let sql = "BEGIN READ WRITE; CREATE SCHEMA billing;
                  CREATE TABLE billing.invoices (id uuid PRIMARY KEY DEFAULT pg_catalog.gen_random_uuid()); COMMIT";
    execute(owner, sql).await;
    for _ in 0..2 {
        migrations::register(owner, &Schema::default(), &types).await.expect("the registration");
        migrations::grant(owner, &Schema::default(), API_ROLE).await.expect("the grant");
    }
    types
}

async fn reserved(store: &PostgresStore, owner: &Client) {
    let invoice: Uuid = value(owner, "INSERT INTO billing.invoices DEFAULT VALUES RETURNING id").await;
    let resource = Resource { resource_type: "invoice".to_owned(), id: invoice.into() };
    let [done, let_go, unknown, lost, old] = [(); 5].map(|()| of_invoice());
    for claim in [&done, &let_go, &unknown] {
        acquire(store, claim).await;
    }
    extend(store, &done, HOUR).await;
    let outcome = Completion { resource: Some(resource), ..completion("done") };
    let completed = store.complete(&done.reservation, &outcome).await.expect("a completion");
    assert_eq!(completed, CompleteOutcome::Completed);
    assert_eq!(replay_of(store, &done).await.resource, Some(invoice.into()));
    let record = look_up(store, &done).await;
    assert_eq!((record.state, record.procedure.as_deref()), (KeyState::Completed, Some(PROCEDURE)));
    assert!(record.expires > record.completed);
    release(store, &let_go).await;
    abandon(store, &unknown).await;
    assert_unknown(store, &again(&unknown)).await;

    let ended = Claim { lease: Duration::ZERO, ..lost };
    acquire(store, &ended).await;
    let search = AbandonedQuery { lookback: Some(HOUR), ..search() };
    let found = store.abandoned(&search).await.expect("the reservations");
    assert!(found.iter().any(|key| key.key == ended.reservation.key), "{found:?}");
    let taken_over = Claim { on_lease_ended: LeasePolicy::Rerun, ..again(&ended) };
    take_over(store, &taken_over).await;

    let expired = Claim { lease: Duration::ZERO, retention: Duration::ZERO, ..old };
    acquire(store, &expired).await;
    assert_eq!(store.sweep(100).await.expect("a sweep"), 1);
}

fn of_invoice() -> Claim {
    Claim { resource_type: Some("invoice".to_owned()), ..new_claim() }
}

/// Calls that share a statement, each of another user.
async fn together(pool: &Pool) {
    let api = pool.get().await.expect("a connection");
    let claims: [Claim; 4] = std::array::from_fn(|_| of_invoice());
    let (all, held) = (claims.each_ref(), claims.each_ref().map(|claim| claim.reservation));
    assert_eq!(statements::reserve(&api, &all).await.expect("reservations"), [true; 4]);
    assert_eq!(
        statements::complete(&api, &held[2..], &[statements::Outcome::DONE; 2]).await.expect("records"),
        [true; 2]
    );
    let found = statements::look(&api, &all).await.expect("a look");
    let completed = Some("completed".to_owned());
    assert_eq!(
        statements::texts(&found, "state"),
        [Some("acquired".to_owned()), Some("acquired".to_owned()), completed.clone(), completed]
    );
}

async fn transactional(store: &PostgresStore) {
    let claim = of_invoice();
    commit(store, &claim, completion("done")).await;
    let outcome = refusal(store, &again(&claim)).await;
    assert!(matches!(outcome, ClaimOutcome::Replay(_)), "{outcome:?}");
}

async fn operated(store: &PostgresStore, owner: &Client) {
    let (key, user) = (Uuid::new_v4(), Uuid::new_v4());
    let stuck = Claim { lease: Duration::ZERO, ..claim(user, key) };
    acquire(store, &stuck).await;
    let [done, other] = [user, Uuid::new_v4()].map(|user| Claim { resource_type: None, ..claim(user, Uuid::new_v4()) });
    for ended in [&done, &other] {
        complete(store, ended, &completion("done")).await;
    }
    let calls = format!(
        "BEGIN READ WRITE;
         DO $calls$ BEGIN
             ASSERT EXISTS (SELECT FROM tenant.idempotency_list() s WHERE s.key_id = '{key}' AND s.state = 'abandoned'), 'stuck';
             ASSERT (SELECT i.state = 'abandoned' FROM tenant.idempotency_inspect('{key}', '{user}') i), 'inspected';
             ASSERT (SELECT r.outcome = 'released' FROM tenant.idempotency_operator_release('{key}', '{user}', '{token}') r), 'released';
             ASSERT (SELECT e.outcome = 'evicted' FROM tenant.idempotency_evict('{done}', '{user}', '{done_token}') e), 'evicted';
             ASSERT (SELECT e.erased = 1 FROM tenant.idempotency_erase('{other}') e), 'erased';
             ASSERT tenant.idempotency_owner('acme', 'auth0|5f7c8ec7') = '7b8d9269-fc10-8469-a92d-24a45e6154cc', 'the owner';
             ASSERT tenant.idempotency_limit_idle(3000.5) = '3000500ms', tenant.idempotency_limit_idle(3000.5);
         END $calls$;
         COMMIT",
        token = stuck.reservation.token,
        done = done.reservation.key.as_uuid(),
        done_token = done.reservation.token,
        other = other.reservation.owner.as_uuid(),
    );
    owner.batch_execute(&calls).await.expect("the operators' functions");
}
