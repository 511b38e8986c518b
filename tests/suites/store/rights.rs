//! The rights of the API's role: its grants, the roles that must not be the API's, and the check of all this at the start.

use futures_util::{StreamExt as _, stream};
use tokio_postgres::AsyncMessage;
use tonic_idempotency::status::IdKind;

use crate::prelude::*;

/// The routines that the API's role cannot call: the owner's and the operators'. Without `idempotency_`.
const OWNERS: &str = "\
    adapt begin_comparing begin_mirroring begin_move check_partitioning compare_batch compare_changes copy_batch \
    drop_before empty_changes end_move erase erase_content erase_row erased_error evict evict_row functions_of grant grant_operator \
    how_to_end id_type inspect is_erased key_id list lock_move make_next \
    mirrors missing_grants missing_operator_grants missing_references move_step move_to_partitions needs_sight node \
    operation_key operator_release operator_release_row overview owner partition partitions reason register_resource revoke_all run_grants \
    see stop_moving sweep_more switch_tables unregistered uuidv8 validate write_mirror write_statements";

const PAGE: &str = include_str!("../../../docs/database.md");

/// Returns the SQL of the page with this word.
fn on_the_page(word: &str) -> &'static str {
    let mut blocks = PAGE.split("```sql\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.find(|block| block.contains(word)).expect("a block")
}

fn unprotected() -> SetupProblem {
    SetupProblem::NoRowLevelSecurity { table: "tenant.idempotency_keys".to_owned() }
}

/// Lists the rights of all roles but the owners on what the migrations make: the role, the object and the privilege.
const RIGHTS: &str = "
    SELECT format('%s: %s %s', CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, o.name, a.privilege_type)
    FROM (
        SELECT c.oid::regclass::text, c.relowner, c.relacl, c.relnamespace FROM pg_class c
        UNION ALL
        SELECT format('%s.%s', c.oid::regclass, a.attname), c.relowner, a.attacl, c.relnamespace
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        UNION ALL
        SELECT p.oid::regprocedure::text, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)), p.pronamespace FROM pg_proc p
        UNION ALL
        SELECT n.nspname, n.nspowner, n.nspacl, n.oid FROM pg_namespace n
    ) AS o (name, owner, rights, space)
    CROSS JOIN aclexplode(o.rights) a
    WHERE o.space::regnamespace::text IN ('tenant', 'authn') AND a.grantee <> o.owner
    ORDER BY 1";

/// As in a database whose objects are for a web client unless somebody says otherwise.
#[tokio::test]
async fn are_the_owners_alone_whatever_default_privileges_say() {
    let (database, mut owner) = Database::empty_with_owner().await;
    let [anyone, analyst] = [(); 2].map(|()| format!("idempotency_tests_{}", Uuid::new_v4().simple()));
    let given: String = ["TABLES", "ROUTINES", "SCHEMAS", "SEQUENCES"]
        .map(|kind| format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON {kind} TO {anyone}, PUBLIC;"))
        .concat();
    let sql = format!("CREATE ROLE {anyone}; CREATE ROLE {analyst}; {given}");
    owner.batch_execute(&sql).await.expect("the roles");
    let schema = Schema::default();
    for migration in migrations::all(&schema) {
        owner.batch_execute(migration.sql()).await.expect("a migration");
        assert_eq!(values::<String>(&owner, RIGHTS).await, [""; 0], "{}", migration.name());
    }
    let by_hand = format!(
        "SELECT tenant.idempotency_grant('{API_ROLE}'); {grant}
         CREATE FUNCTION tenant.of_row(k tenant.idempotency_keys) RETURNS text LANGUAGE sql AS 'SELECT k.procedure';
         REVOKE ALL ON FUNCTION tenant.of_row FROM PUBLIC, {anyone}; GRANT EXECUTE ON FUNCTION tenant.of_row TO {analyst};
         GRANT EXECUTE ON FUNCTION tenant.idempotency_version() TO {anyone};
         CREATE SCHEMA billing; CREATE TABLE billing.invoices (id uuid PRIMARY KEY);",
        grant = on_the_page("my_analyst_role").replace("my_analyst_role", &analyst),
    );
    owner.batch_execute(&by_hand).await.expect("grants");
    let granted: Vec<String> = values(&owner, RIGHTS).await;
    assert!(granted.len() > 60 && !granted.iter().any(|right| right.starts_with("PUBLIC")), "{granted:?}");

    let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
    migrations::register(&mut owner, &schema, &types).await.expect("the registration");
    migrations::limits(&owner, &schema).await.expect("the limits");
    migrations::partitions(&owner, &schema).await.expect("what partitions need");
    migrations::run(&mut owner, &schema).await.expect("the migrations run again");
    assert_eq!(values::<String>(&owner, RIGHTS).await, granted);
    let mut steps = 0;
    while value::<String>(&owner, "SELECT s.step FROM tenant.idempotency_move_step(2, 500, NULL) s").await != "done" {
        let held: Vec<String> = values(&owner, RIGHTS).await;
        let new: Vec<_> = held.iter().filter(|right| !granted.contains(right)).collect();
        let as_granted = |right: &&String| right.contains("tenant.idempotency_keys_") || right.contains(".of_row(");
        assert!(new.iter().all(as_granted) && !new.iter().any(|right| right.contains(&anyone)), "{new:?}");
        steps += 1;
    }
    assert_eq!((values(&owner, RIGHTS).await, steps > 8), (granted, true));
    let listed = format!(
        "SELECT concat_ws(' ', grantee, name, privilege_type) FROM ({}) r",
        on_the_page("information_schema").trim_end().trim_end_matches(';')
    );
    let listed: Vec<String> = values(&owner, &listed).await;
    for (role, rights) in [
        (&analyst, &["idempotency_keys SELECT", "of_row EXECUTE"][..]),
        (&anyone, &["idempotency_version EXECUTE"]),
        (&"PUBLIC".to_owned(), &[]),
    ] {
        let of_role: Vec<_> =
            listed.iter().filter_map(|right| right.strip_prefix(role.as_str())).map(str::trim).collect();
        assert_eq!(of_role, rights);
    }
    let store = PostgresStore::new(database.pool_of_login(2).await, types);
    assert_eq!(problems(&store).await, []);
    drop_roles(&owner, &[&anyone, &analyst]).await;
}

/// A right that no other role should have, and the remedy that the message says.
#[tokio::test]
async fn are_verified_and_too_many_are_found() {
    let (database, owner) = core_alone().await;
    let store = PostgresStore::new(database.pool_of_login(1).await, ResourceTypes::none());
    for (privilege, object, role) in [
        ("SELECT", "table tenant.idempotency_keys", "PUBLIC"),
        ("SELECT", "table tenant.idempotency_resource_types", "PUBLIC"),
        ("EXECUTE", "routine tenant.idempotency_claim", "PUBLIC"),
        ("TRUNCATE", "table tenant.idempotency_keys", API_ROLE),
        ("TRUNCATE", "table tenant.idempotency_migrations", API_LOGIN),
        ("INSERT", "table tenant.idempotency_audit", API_ROLE),
        ("EXECUTE", "routine tenant.idempotency_operator_release", API_ROLE),
        ("EXECUTE", "routine tenant.idempotency_list", API_LOGIN),
        ("EXECUTE", "routine tenant.idempotency_evict", API_ROLE),
        ("EXECUTE", "routine tenant.idempotency_erase", API_LOGIN),
    ] {
        owner.batch_execute(&format!("GRANT {privilege} ON {object} TO {role}")).await.expect("a right");
        let wrong = SetupProblem::ExcessPrivilege {
            object: object.to_owned(),
            privilege: privilege.to_owned(),
            role: role.to_owned(),
        };
        assert_eq!(problems(&store).await, std::slice::from_ref(&wrong));
        let message = wrong.to_string();
        let remedy = message.rsplit(", ").next().expect("a statement");
        owner.batch_execute(remedy).await.expect(remedy);
        assert_eq!(problems(&store).await, [], "{remedy}");
    }
    execute(&owner, "GRANT SELECT (user_id) ON tenant.idempotency_keys TO PUBLIC").await;
    assert!(matches!(problems(&store).await[..], [SetupProblem::ExcessPrivilege { .. }]));
}

#[tokio::test]
async fn nobody_can_execute_a_routine_that_was_not_granted() {
    let (_database, owner) = core_alone().await;
    migrations::limits(&owner, &Schema::default()).await.expect("the limits");
    migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    let public = "SELECT p.oid::regprocedure::text FROM pg_proc p
                  CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                  WHERE p.pronamespace::regnamespace::text IN ('tenant', 'authn') AND a.grantee = 0";
    assert_eq!(values::<String>(&owner, public).await, [""; 0]);

    let denied = format!(
        "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace::regnamespace::text IN ('tenant', 'authn')
         AND NOT has_function_privilege('{API_ROLE}', p.oid, 'EXECUTE') ORDER BY 1"
    );
    let owners: Vec<_> = OWNERS.split(' ').map(|name| format!("idempotency_{name}")).collect();
    assert_eq!(values::<String>(&owner, &denied).await, owners);
    let all = "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'tenant'::regnamespace";
    assert!(values::<String>(&owner, all).await.len() > 25);
}

#[tokio::test]
async fn a_superuser_and_a_role_that_bypasses_row_level_security_are_refused() {
    let (_database, owner) = core_alone().await;
    let role = format!("idempotency_tests_{}", Uuid::new_v4().simple());
    owner.batch_execute(&format!("CREATE ROLE {role}")).await.expect("the role");
    for (exempt, plain) in [("SUPERUSER", "NOSUPERUSER"), ("BYPASSRLS", "NOBYPASSRLS")] {
        owner.batch_execute(&format!("ALTER ROLE {role} {exempt}")).await.expect("the role");
        let error = migrations::grant(&owner, &Schema::default(), &role).await.expect_err(exempt);
        let error = std::error::Error::source(&error).expect("the cause").to_string();
        assert!(!error.is_empty(), "{error}");
        let granted = format!("SELECT has_table_privilege('{role}', 'tenant.idempotency_keys', 'SELECT')");
        owner.batch_execute(&format!("ALTER ROLE {role} {plain}")).await.expect("the role");
        assert!(!value::<bool>(&owner, &granted).await, "{exempt}");
    }
    migrations::grant(&owner, &Schema::default(), &role).await.expect("the grant");
    drop_roles(&owner, &[&role]).await;
}

#[tokio::test]
async fn the_owner_of_the_table_is_warned_of() {
    let (database, owner) = core_alone().await;
    let (client, mut connection) = tokio_postgres::connect(database.url(), NoTls).await.expect("a connection");
    let messages =
        tokio::spawn(
            async move { stream::poll_fn(|context| connection.poll_message(context)).collect::<Vec<_>>().await },
        );
    migrations::grant(&client, &Schema::default(), API_ROLE).await.expect("the grant");
    owner.batch_execute(&format!("ALTER TABLE tenant.idempotency_keys OWNER TO {API_ROLE}")).await.expect("the owner");
    migrations::grant(&client, &Schema::default(), API_ROLE).await.expect("the grant");
    drop(client);
    let warnings = messages.await.expect("the connection ends").into_iter().filter_map(|message| match message {
        Ok(AsyncMessage::Notice(notice)) => Some(notice.message().to_owned()),
        _ => None,
    });
    let warnings: Vec<_> = warnings.collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("owns tenant.idempotency_keys"), "{warnings:?}");
}

/// Replicas that start together.
#[tokio::test]
async fn are_granted_by_many_at_once_and_again_without_a_lock() {
    let (database, mut owner) = Database::empty_with_owner().await;
    migrate(&mut owner, &Schema::default()).await;
    let roles: Vec<_> = (0..4).map(|_| format!("idempotency_tests_{}", Uuid::new_v4().simple())).collect();
    let grant = async |client: &Client, role: &str| {
        migrations::grant(client, &Schema::default(), role).await.expect("the grant");
        migrations::grant_operator(client, &Schema::default(), role).await.expect("the grant");
    };
    for role in &roles {
        execute(&owner, &format!("CREATE ROLE {role}")).await;
    }
    join_all(roles.iter().flat_map(|role| [role; 4]).map(async |role| grant(&database.owner().await, role).await))
        .await;
    let locks = database.owner().await;
    let lock =
        "BEGIN; LOCK TABLE tenant.idempotency_keys, tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE";
    execute(&locks, lock).await;
    let version = "SELECT xmin::text FROM pg_class WHERE oid = 'tenant.idempotency_keys'::regclass
                   UNION ALL SELECT xmin::text FROM pg_proc WHERE pronamespace = 'tenant'::regnamespace ORDER BY 1";
    let before: Vec<String> = values(&owner, version).await;
    execute(&owner, "SET lock_timeout = '1s'").await;
    for role in &roles {
        grant(&owner, role).await;
    }
    assert_eq!(values::<String>(&owner, version).await, before, "nothing is changed");
    execute(&locks, "ROLLBACK").await;
    drop_roles(&owner, &roles.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn are_verified_and_nothing_is_missing_nor_left_on_the_connection() {
    let database = Database::new().await;
    let pool = database.pool_of_login(1).await;
    assert_eq!(problems(&PostgresStore::new(pool.clone(), organization::resource_types())).await, []);
    let connection = pool.get().await.expect("a connection");
    assert_eq!(value::<String>(&connection, "SHOW search_path").await, "\"$user\", public");
}

#[tokio::test]
async fn are_verified_and_everything_that_is_wrong_is_said_at_once() {
    let (database, owner) = core_alone().await;
    let pool = database.pool_of_login(1).await;
    let types = ResourceTypes::new([ResourceType::new("invoice", "invoice_id", "billing.invoices")]);
    let store = PostgresStore::new(pool, types);
    let unregistered = SetupProblem::UnregisteredType { name: "invoice".to_owned(), column: "invoice_id".to_owned() };
    assert_eq!(problems(&store).await, std::slice::from_ref(&unregistered));

    let sql = format!(
        "ALTER TABLE tenant.idempotency_keys DISABLE ROW LEVEL SECURITY;
             REVOKE UPDATE ON tenant.idempotency_keys FROM {API_ROLE};
             REVOKE EXECUTE ON PROCEDURE tenant.idempotency_sweep FROM {API_ROLE};
             CREATE OR REPLACE FUNCTION tenant.idempotency_version() RETURNS integer LANGUAGE sql AS 'SELECT 999'"
    );
    owner.batch_execute(&sql).await.expect("all of it is broken");
    let missing = |privilege: &str, object: &str| SetupProblem::MissingPrivilege {
        privilege: privilege.to_owned(),
        object: object.to_owned(),
        role: API_LOGIN.to_owned(),
    };
    // In the order in which the remedies work.
    let expected = [
        SetupProblem::OtherVersion { found: Some(999), needed: 9 },
        missing("UPDATE", "table tenant.idempotency_keys"),
        missing("EXECUTE", "routine tenant.idempotency_sweep"),
        unregistered,
        unprotected(),
    ];
    assert_eq!(problems(&store).await, expected);
    let message = store.verify().await.expect_err("all of it is wrong").to_string();
    assert_eq!(message.lines().count(), 6, "{message}");
}

#[tokio::test]
async fn are_verified_together_with_the_resource_types() {
    let (database, owner) = core_alone().await;
    let create = |kind: &str| format!("CREATE TABLE billing.{kind}s (id {kind} PRIMARY KEY)");
    owner.batch_execute("CREATE SCHEMA billing").await.expect("a schema");
    let kinds = [("bigint", IdKind::Integer), ("text", IdKind::Text), ("uuid", IdKind::Uuid)];
    for (column, kind) in kinds {
        owner.batch_execute(&create(column)).await.expect("a table");
        let known = ResourceType::new(column, format!("{column}_id"), format!("billing.{column}s")).ids(kind);
        owner.batch_execute(&known.registration_sql(&Schema::default())).await.expect("the registration");
    }
    let pool = database.pool_of_login(1).await;
    let store = |kind: IdKind, is_tracked: bool| {
        let types = kinds.map(|(column, _)| {
            let known = ResourceType::new(column, format!("{column}_id"), format!("billing.{column}s")).ids(kind);
            if is_tracked { known.tracked() } else { known }
        });
        PostgresStore::new(pool.clone(), ResourceTypes::new(types))
    };
    for (right, kind) in kinds {
        let others = kinds.iter().filter(|(column, _)| *column != right);
        let expected: Vec<_> = others
            .map(|(column, _)| SetupProblem::OtherIdKind { name: (*column).to_owned(), found: (*column).to_owned() })
            .collect();
        assert_eq!(problems(&store(kind, false)).await, expected, "{kind:?}");
    }

    let one = ResourceType::new("uuid", "uuid_id", "billing.uuids").tracked();
    let one = PostgresStore::new(pool.clone(), ResourceTypes::new([one]));
    let function = "tenant.idempotency_resource_status".to_owned();
    assert_eq!(problems(&one).await, [SetupProblem::NoStatus { function, resource_types: "uuid".to_owned() }]);
    let message = one.verify().await.expect_err("nobody knows it").to_string();
    assert!(message.contains("replace it"), "{message}");
    let sql = "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text) RETURNS text
             LANGUAGE sql AS $$ SELECT NULL $$";
    owner.batch_execute(sql).await.expect("another function");
    assert_eq!(problems(&one).await, []);
}

/// Checks the text that a `main` prints if it returns the error.
#[tokio::test]
async fn that_are_all_missing_are_a_line_for_each_kind_of_object() {
    let (database, owner) = core_alone().await;
    let store = PostgresStore::new(database.pool_of_login(1).await, ResourceTypes::none());
    let sql = format!(
            "REVOKE ALL ON ALL TABLES IN SCHEMA tenant FROM {API_ROLE}; REVOKE ALL ON ALL ROUTINES IN SCHEMA tenant FROM {API_ROLE};
             REVOKE ALL ON SCHEMA tenant FROM {API_ROLE}"
        );
    owner.batch_execute(&sql).await.expect("the grants go");
    assert!(problems(&store).await.len() > 20);
    let printed = format!("{:?}", store.verify().await.expect_err("there are no grants"));
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 4, "{printed}");
    for (line, object) in lines[1..].iter().zip(["schema tenant", "table tenant.", "routine tenant."]) {
        assert!(line.contains(&format!("the role {API_LOGIN} lacks")) && line.contains(object), "{line}");
        assert!(line.contains("migrations::grant") && line.contains(&format!("--grant {API_LOGIN}")), "{line}");
    }
    assert!(lines[3].contains("(the same for EXECUTE on routine tenant."), "{printed}");
}

#[tokio::test]
async fn are_verified_one_by_one() {
    let (database, owner) = core_alone().await;
    migrations::limits(&owner, &Schema::default()).await.expect("the limits");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    execute(&owner, "CREATE INDEX my_index ON tenant.idempotency_keys (user_id, expires)").await;
    let store = limited(PostgresStore::new(database.pool_of_login(1).await, ResourceTypes::none()), 10);
    let granted = format!(
        "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace::regnamespace::text IN ('tenant', 'authn')
         AND has_function_privilege('{API_ROLE}', p.oid, 'EXECUTE')"
    );
    for routine in values::<String>(&owner, &granted).await {
        execute(&owner, &format!("REVOKE EXECUTE ON ROUTINE {routine} FROM {API_ROLE}")).await;
        let wrong = problems(&store).await;
        assert!(matches!(wrong[..], [SetupProblem::MissingPrivilege { .. }]), "{routine}: {wrong:?}");
        migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
        assert_eq!(problems(&store).await, [], "{routine}");
    }
}

#[tokio::test]
async fn are_verified_for_a_role_that_is_exempt_and_a_database_without_the_table() {
    let database = Database::new().await;
    // It logs in as a superuser, and can become one again.
    let store = PostgresStore::new(database.pool(1), organization::resource_types());
    assert!(matches!(problems(&store).await[..], [SetupProblem::ExemptRole { .. }]));

    let empty = Database::empty().await;
    let store = PostgresStore::new(empty.pool_of_login(1).await, ResourceTypes::none());
    let expected = [
        SetupProblem::MissingTable { table: "tenant.idempotency_keys".to_owned() },
        SetupProblem::OtherVersion { found: None, needed: 9 },
    ];
    assert_eq!(problems(&store).await, expected);

    // The owner of an adopted table is exempt, unless row-level security is forced.
    let (database, owner) = core_alone().await;
    let store = PostgresStore::new(database.pool_of_login(1).await, ResourceTypes::none());
    let sql = format!(
        "ALTER TABLE tenant.idempotency_keys OWNER TO {API_ROLE};
             ALTER TABLE tenant.idempotency_keys NO FORCE ROW LEVEL SECURITY;
             SELECT tenant.idempotency_adapt()"
    );
    owner.batch_execute(&sql).await.expect("the owner");
    assert_eq!(problems(&store).await, [unprotected()]);
    owner.batch_execute("ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY").await.expect("forced");
    assert_eq!(problems(&store).await, []);
}
