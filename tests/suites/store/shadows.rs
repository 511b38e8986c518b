//! Functions, operators and types of other schemas that look like PostgreSQL's own: none of them is used, neither by the
//! migrations nor by the API.

use crate::prelude::*;
use crate::{
    batches::statements::{self, Outcome},
    migrations::{core, files},
    prepared,
};

/// Shadows every function of the catalogue that is named in `$1`, with the same parameters. A function of any types gets
/// shadows of up to three parameters of the types that the table has.
const FUNCTIONS: &str = "
    CREATE FUNCTION pg_temp.shadow_functions(p_words text[]) RETURNS bigint LANGUAGE plpgsql
    SET search_path = pg_catalog, public AS $$
    DECLARE
        v_made bigint := 0;
        v_function record;
        v_body CONSTANT text := 'BEGIN RAISE EXCEPTION ''a shadow of %s ran''; END';
    BEGIN
        FOR v_function IN
            SELECT p.proname, pg_get_function_arguments(p.oid) AS parameters, pg_get_function_result(p.oid) AS result
            FROM pg_proc p
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.proname = ANY (p_words)
            UNION ALL
            SELECT p.proname, concat_ws(', ', nullif(a.one, ''), nullif(a.two, ''), nullif(a.three, '')),
                   pg_get_function_result(p.oid)
            FROM pg_proc p
            CROSS JOIN (
                SELECT one, two, three
                FROM unnest(ARRAY['uuid', 'text', 'bytea', 'timestamptz', 'name', 'regclass', 'boolean']) one,
                     unnest(ARRAY['', 'uuid', 'text', 'bytea', 'timestamptz', 'name', 'boolean']) two,
                     unnest(ARRAY['', 'uuid', 'text', 'bytea', 'timestamptz', 'name', 'boolean']) three
                WHERE two <> '' OR three = ''
            ) a
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (p_words)
              AND '\"any\"'::regtype = ANY (p.proargtypes::oid[]) AND p.prokind = 'f'
        LOOP
            BEGIN
                EXECUTE pg_catalog.format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', v_function.proname,
                               v_function.parameters, v_function.result, pg_catalog.format(v_body, v_function.proname));
                v_made := v_made + 1;
            EXCEPTION WHEN OTHERS THEN
                -- Pseudo-types that PL/pgSQL does not take, and duplicates.
                NULL;
            END;
        END LOOP;
        RETURN v_made;
    END $$";

/// Shadows every binary operator of the catalogue.
const OPERATORS: &str = "
    DO $$
    DECLARE
        v_operator record;
    BEGIN
        FOR v_operator IN
            SELECT o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result
            FROM pg_operator o
            WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft <> 0
        LOOP
            BEGIN
                EXECUTE pg_catalog.format('CREATE FUNCTION public.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
                               'shadow ' || v_operator.oprname, v_operator.l, v_operator.r, v_operator.result,
                               pg_catalog.format('BEGIN RAISE EXCEPTION ''a shadow of the operator ran: %s''; END',
                                      pg_catalog.replace(v_operator.oprname, '%', '%%')));
                EXECUTE pg_catalog.format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.%I)',
                               v_operator.oprname, v_operator.l, v_operator.r, 'shadow ' || v_operator.oprname);
            EXCEPTION WHEN OTHERS THEN
                NULL;
            END;
        END LOOP;
    END $$";

/// Shadows types whose names are not words of the grammar. A value of such a type is an error.
const TYPES: &str = "
    DO $$
    DECLARE
        v_type text;
    BEGIN
        FOREACH v_type IN ARRAY ARRAY['uuid', 'text', 'bytea', 'timestamptz', 'name', 'oid', 'regclass', 'record'] LOOP
            IF v_type = 'record' THEN
                CREATE TYPE public.record AS (shadow integer);
            ELSE
                EXECUTE pg_catalog.format('CREATE DOMAIN public.%I AS pg_catalog.%I CHECK (false)', v_type, v_type);
            END IF;
        END LOOP;
    END $$";

/// A database in which the schema `public` shadows PostgreSQL's own, and comes first in the search_path of all roles.
async fn shadowed() -> Database {
    let (database, owner) = Database::empty_with_owner().await;
    owner.batch_execute(OPERATORS).await.expect("the operators");
    let operators = "SELECT count(*) FROM pg_operator WHERE oprnamespace = 'public'::regnamespace";
    assert!(value::<i64>(&owner, operators).await > 500);
    owner.batch_execute(FUNCTIONS).await.expect("the maker of shadows");
    let words = words();
    let sql = "SELECT pg_temp.shadow_functions($1)";
    let made = owner.query_typed_one(sql, &[(&words, Type::TEXT_ARRAY)]).await.expect("the functions");
    assert!(made.get::<_, i64>(0) > 500, "functions were shadowed");
    owner.batch_execute(TYPES).await.expect("the types");
    let sql = "DO $$ BEGIN
                 EXECUTE pg_catalog.format('ALTER DATABASE %I SET search_path = public, pg_catalog', pg_catalog.current_database());
             END $$";
    execute(&owner, sql).await;
    database
}

/// The words of the migrations and of the store's statements. Those that are names of functions are shadowed.
fn words() -> Vec<String> {
    let mut texts = files("src/store/sql/statements");
    texts.extend(migrations::all(&Schema::default()).iter().map(|migration| migration.sql().to_owned()));
    texts.extend([migrations::limits_sql(&Schema::default()), migrations::partitions_sql(&Schema::default())]);
    let words = texts.iter().flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
    let words: HashSet<_> = words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.into_iter().collect()
}

async fn fails(client: &Client, statement: &str) {
    let error = client.query(statement, &[]).await.expect_err(statement);
    assert!(error.as_db_error().is_some_and(|error| error.message().contains("shadow")), "{statement}: {error:?}");
}

/// The shadows of functions, of operators and of types are there.
#[tokio::test]
async fn would_run_if_a_name_were_not_pinned() {
    let database = shadowed().await;
    let client = database.owner().await;
    for statement in [
        "SELECT concat(pg_catalog.gen_random_uuid(), ' '::pg_catalog.text, pg_catalog.gen_random_uuid())",
        "SELECT num_nonnulls(''::pg_catalog.bytea, ''::pg_catalog.bytea)",
        "SELECT make_interval(secs => 1)",
        "SELECT format('%s'::pg_catalog.text, ''::pg_catalog.text)",
        "SELECT clock_timestamp()",
        "SELECT 1 + 1",
    ] {
        fails(&client, statement).await;
    }
    client.query("SELECT 'x'::text", &[]).await.expect_err("a value of the domain");
}

#[tokio::test]
async fn do_not_run_in_migrations_nor_in_any_operation() {
    let database = shadowed().await;
    let mut owner = database.owner().await;
    let operator = database.login(OPERATOR).await;
    migrate(&mut owner, &Schema::default()).await;
    owner.batch_execute("CREATE TABLE tenant.invoices (id pg_catalog.uuid PRIMARY KEY)").await.expect("a table");
    let invoice = Uuid::new_v4();
    let insert = "INSERT INTO tenant.invoices VALUES ($1)";
    owner.query_typed(insert, &[(&invoice, Type::UUID)]).await.expect("an invoice");
    let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "tenant.invoices")]);
    for _ in 0..2 {
        migrations::run(&mut owner, &Schema::default()).await.expect("the migrations, again");
        migrations::register(&mut owner, &Schema::default(), &types).await.expect("the registration");
        migrations::limits(&owner, &Schema::default()).await.expect("the limits");
        migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
        migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
        migrations::grant_operator(&owner, &Schema::default(), OPERATOR).await.expect("the grant");
        for file in core() {
            owner.batch_execute(&file).await.expect("a migration, again");
        }
    }

    let store = PostgresStore::new(database.pool(2), types);
    every_operation(&store, invoice).await;
    every_operation(&store.clone().prepared_statements(PreparedStatements::Never), invoice).await;
    several_calls(&database.api().await, invoice).await;
    let look_up = database.api().await;
    let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
    let parameters: Parameters<'_> = &[(&user, Type::UUID), (&key, Type::UUID), (&key, Type::UUID)];
    look_up.query_typed("CALL tenant.idempotency_committed($1, $2, $3, NULL)", parameters).await.expect("the look-up");

    acquire(&store, &claim(user, key)).await;
    for key in [key.to_string(), "order-17".to_owned()] {
        let statement = format!(
            "SELECT tenant.idempotency_list(), tenant.idempotency_overview(), tenant.idempotency_inspect('{key}', '{user}'), tenant.idempotency_operator_release('{key}', '{user}', NULL),
             tenant.idempotency_evict('{key}', '{user}', NULL), tenant.idempotency_erase('{user}')"
        );
        operator.batch_execute(&statement).await.expect("the operator's functions");
    }
}

async fn every_operation(store: &PostgresStore, invoice: Uuid) {
    let resource = Resource { resource_type: "invoice".to_owned(), id: invoice.into() };
    prepared::every_operation(store, &resource, |_| {}).await;
    let [first, begun] = [(); 2].map(|()| Claim { resource_type: Some("invoice".to_owned()), ..new_claim() });
    let created = Completion { resource: Some(resource), ..completion("done") };
    acquire(store, &first).await;
    assert_in_flight(store, &first).await;
    for _ in 0..2 {
        store.complete(&first.reservation, &created).await.expect("a completion");
    }
    replay_of(store, &first).await;
    look_up(store, &first).await;
    store.abandoned(&AbandonedQuery { lookback: Some(HOUR), ..search() }).await.expect("the abandoned reservations");
    let transaction =
        store.begin_without_key(Some(first.reservation.owner), &first.session, TransactionOptions::default()).await;
    transaction.expect("a transaction").commit(None).await.expect("a commit");
    let transaction = open_transaction(store, &begun).await;
    refusal(store, &again(&begun)).await;
    look_up(store, &begun).await;
    committed(transaction, created).await;
    // Of the role, nothing is verified here: the pool logs in as a superuser.
    let problems = store.verify().await.expect_err("the login is exempt").to_string();
    assert_eq!(problems.lines().count(), 2, "{problems}");
}

async fn several_calls(api: &Client, invoice: Uuid) {
    let settings = Arc::new(SessionSettings::new().set("app.tenant_id", "acme"));
    let claims = [(); 3].map(|()| {
        let claim = new_claim();
        let session = CallSession { settings: Some(Arc::clone(&settings)), ..claim.session };
        Claim { session, resource_type: Some("invoice".to_owned()), ..claim }
    });
    let held = claims.each_ref().map(|claim| claim.reservation);
    let invoice = invoice.to_string();
    let created = Outcome { resource: Some(("invoice_id", &invoice)), ..Outcome::DONE };
    assert_eq!(statements::reserve(api, &claims.each_ref()).await.expect("a reservation"), [true; 3]);
    assert_eq!(statements::complete(api, &held[1..], &[created; 2]).await.expect("a completion"), [true; 2]);
    let found = statements::look(api, &claims.each_ref()).await.expect("a look");
    assert_eq!(statements::texts(&found, "resource"), [None, Some(invoice.clone()), Some(invoice)]);
}
