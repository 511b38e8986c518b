//! A table that the Go interceptor's migrations made: ours adopt it, and its owner notices nothing.

use crate::prelude::*;
use crate::{
    batches::statements::{self, Outcome},
    migrations::{schema, works},
};

/// The Go service's types of resources.
const KINDS: [&str; 8] =
    ["project", "project_member", "cluster", "node_pool", "namespace", "api_key", "install", "organization_user"];

/// The shape of the Go service's table: its columns, the foreign keys of eight resource types, its checks, indexes,
/// policies, user function and grants. `{owner}` owns it; the Go service logs in as `{go}`.
const GO_SERVICE: &str = "
    CREATE SCHEMA tenant AUTHORIZATION {owner};
    CREATE SCHEMA authn AUTHORIZATION {owner};
    SET ROLE {owner};
    CREATE FUNCTION authn.current_user_id() RETURNS uuid LANGUAGE sql STABLE
        AS $$ SELECT current_setting('app.current_user_id')::uuid $$;
    {tables}
    CREATE TABLE tenant.idempotency_keys (
        id uuid NOT NULL DEFAULT gen_random_uuid(),
        idempotency_key uuid NOT NULL,
        user_id uuid NOT NULL,
        procedure text NOT NULL,
        request_hash bytea NOT NULL,
        response_bytes bytea,
        created timestamptz NOT NULL DEFAULT now(),
        expires timestamptz NOT NULL,
        {columns}
        CONSTRAINT keys_pk PRIMARY KEY (id),
        {keys}
        CONSTRAINT keys_ck_single_resource CHECK (num_nonnulls({ids}) <= 1)
    );
    CREATE UNIQUE INDEX keys_uq_key_user ON tenant.idempotency_keys (idempotency_key, user_id);
    CREATE INDEX keys_idx_expires ON tenant.idempotency_keys (expires);
    ALTER TABLE tenant.idempotency_keys ENABLE ROW LEVEL SECURITY;
    CREATE POLICY idempotency_keys_fundament_api_policy ON tenant.idempotency_keys
        FOR ALL TO {go} USING (user_id = authn.current_user_id());
    CREATE POLICY idempotency_keys_cleanup_policy ON tenant.idempotency_keys
        FOR DELETE TO {go} USING (expires < now());
    GRANT USAGE ON SCHEMA tenant, authn TO {go};
    GRANT SELECT, INSERT, UPDATE, DELETE ON tenant.idempotency_keys TO {go};
    INSERT INTO tenant.projects DEFAULT VALUES;
    INSERT INTO tenant.idempotency_keys
        (idempotency_key, user_id, procedure, request_hash, response_bytes, expires, project_id)
    SELECT '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002',
        '/organization.v1.ProjectService/CreateProject', decode(repeat('07', 32), 'hex'), 'go',
        now() + interval '1 day', id
    FROM tenant.projects;
    RESET ROLE;
";

/// The rights on the table: its owner, whether row-level security is on and forced, and what each role may do.
async fn rights(client: &Client) -> Vec<String> {
    let sql = "SELECT format('%s %s %s', relowner::regrole, relrowsecurity, relforcerowsecurity)
             FROM pg_class WHERE oid = 'tenant.idempotency_keys'::regclass
             UNION ALL SELECT format('%s %s', grantee::regrole, privilege_type) FROM pg_class, aclexplode(relacl)
             WHERE oid = 'tenant.idempotency_keys'::regclass
             UNION ALL SELECT format('%s %s', grantee::regrole, privilege_type) FROM pg_namespace, aclexplode(nspacl)
             WHERE nspname IN ('tenant', 'authn')
             UNION ALL SELECT format('%s %s', oid::regprocedure, proacl) FROM pg_proc
             WHERE oid = 'authn.current_user_id()'::regprocedure
             UNION ALL SELECT format('%s %s %s %s', polname, polroles::regrole[], polcmd, pg_get_expr(polqual, polrelid))
             FROM pg_policy";
    values(client, sql).await
}

/// A Go server's database after our migrations, its owner's name, and the resource types.
struct Adopted {
    database: Database,
    superuser: Client,
    owner: String,
    go: String,
    types: ResourceTypes,
}

impl Adopted {
    /// Runs our migrations as the owner of the table, who is not a superuser.
    async fn new() -> Self {
        let database = Database::empty().await;
        let superuser = database.owner().await;
        let ((owner, mut client), (go, _)) = (plain_owner(&database).await, plain_owner(&database).await);
        let each = |text: &str| KINDS.map(|kind| text.replace("{kind}", kind)).concat();
        let service = GO_SERVICE
            .replace("{tables}", &each("CREATE TABLE tenant.{kind}s (id uuid PRIMARY KEY DEFAULT gen_random_uuid());"))
            .replace("{columns}", &each("{kind}_id uuid, "))
            .replace(
                "{keys}",
                &each("CONSTRAINT keys_fk_{kind} FOREIGN KEY ({kind}_id) REFERENCES tenant.{kind}s (id), "),
            )
            .replace("{ids}", &KINDS.map(|kind| format!("{kind}_id")).join(", "));
        let service = service.replace("{owner}", &owner).replace("{go}", &go);
        superuser.batch_execute(&service).await.expect("the Go service's migrations");
        let before = (schema(&superuser).await, rights(&superuser).await);
        let file = file(&superuser).await;

        migrations::run(&mut client, &Schema::default()).await.expect("the core migrations");
        let types = KINDS.map(|kind| ResourceType::new(kind, format!("{kind}_id"), format!("tenant.{kind}s")));
        let types = ResourceTypes::new(types);
        migrations::register(&mut client, &Schema::default(), &types).await.expect("the registration");
        migrations::grant(&client, &Schema::default(), API_ROLE).await.expect("the grant");

        let after = (schema(&superuser).await, rights(&superuser).await);
        let gone = |before: &[String], after: &[String]| {
            before.iter().filter(|line| !after.contains(line)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(gone(&before.0, &after.0), Vec::<String>::new(), "removed");
        assert_eq!(gone(&before.1, &after.1), Vec::<String>::new(), "rights that the owner or the Go service lost");
        assert_eq!(self::file(&superuser).await, file, "the table was written anew, while everybody waited");
        Self { database, superuser, owner, go, types }
    }

    async fn as_role(&self, role: &str) -> Client {
        let client = self.database.owner().await;
        client.batch_execute(&format!("SET ROLE {role}")).await.expect("the role");
        client
    }

    async fn drop_roles(self) {
        drop_roles(&self.superuser, &[&self.owner, &self.go]).await;
    }
}

/// The file of the table. It changes whenever the table is rewritten.
async fn file(client: &Client) -> u32 {
    value(client, "SELECT pg_relation_filenode('tenant.idempotency_keys')").await
}

#[tokio::test]
async fn changes_nothing_for_the_owner_of_the_table() {
    let adopted = Adopted::new().await;
    let owner = adopted.as_role(&adopted.owner).await;
    // As pg_dump reads it. With row-level security forced, the Go service's function would raise an error.
    owner.batch_execute("SET row_security = off").await.expect("the setting");
    assert_eq!(count(&owner, "tenant.idempotency_keys").await, 1);
    let updated = owner.execute("UPDATE tenant.idempotency_keys SET procedure = procedure", &[]).await;
    assert_eq!(updated.expect("the owner may"), 1);

    let indexes = "SELECT count(*) FROM pg_index WHERE indrelid = 'tenant.idempotency_keys'::regclass";
    let indexes: i64 = value(&owner, indexes).await;
    assert_eq!(indexes, 3 + 8, "its own, and one for each resource type");
    adopted.drop_roles().await;
}

/// Other applications' users are texts or numbers, which are no owners.
#[tokio::test]
async fn leaves_out_a_function_of_the_user_that_returns_no_uuid() {
    for kind in ["text", "bigint", "SETOF uuid"] {
        let (database, mut owner) = Database::empty_with_owner().await;
        let own = format!(
            "CREATE SCHEMA authn; CREATE FUNCTION authn.current_user_id() RETURNS {kind} LANGUAGE plpgsql STABLE AS
             $$ BEGIN RAISE 'there is no user'; END $$; REVOKE EXECUTE ON FUNCTION authn.current_user_id() FROM PUBLIC"
        );
        owner.batch_execute(&own).await.expect("a function of the application");
        let schema = Schema::default();
        migrations::run(&mut owner, &schema).await.expect(kind);
        migrations::limits(&owner, &schema).await.expect(kind);
        execute(&owner, "CREATE INDEX my_index ON tenant.idempotency_keys (user_id, expires)").await;
        for partitioned in [false, true] {
            if partitioned {
                migrations::move_to_partitions(&owner, &schema, 2).await.expect(kind);
            }
            migrations::grant(&owner, &schema, API_ROLE).await.expect(kind);
            let store = limited(PostgresStore::new(database.pool_of_login(2).await, ResourceTypes::none()), 10);
            store.verify().await.expect(kind);
            works(&database).await;
            let claim = new_claim();
            commit(&store, &claim, completion("done")).await;
            replay_of(&store, &claim).await;
            let claims = [(); 3].map(|()| super::record::new_claim());
            let reserved = statements::reserve(&database.api().await, &claims.each_ref()).await;
            assert_eq!(reserved.expect("a statement for several calls"), [true; 3], "{kind}");
        }
        let policy = "SELECT FROM pg_policies WHERE qual LIKE '((user_id >= COALESCE(%) AND (user_id <= COALESCE(%))'";
        assert_eq!(owner.query(policy, &[]).await.expect("policies").len(), 1, "it chooses no partition");
    }
}

/// It is the owner's decision.
#[tokio::test]
async fn forces_row_level_security_if_the_owner_says_so() {
    let adopted = Adopted::new().await;
    let mut owner = adopted.as_role(&adopted.owner).await;
    execute(&owner, "ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY").await;
    execute(&owner, "SET app.current_user_id = '00000000-0000-0000-0000-000000000000'").await;
    assert_eq!(count(&owner, "tenant.idempotency_keys").await, 0);
    for file in super::migrations::core() {
        owner.batch_execute(&file).await.expect("a migration, again");
    }
    assert_eq!(count(&owner, "tenant.idempotency_keys").await, 0, "running the migrations again keeps it");
    let store = PostgresStore::new(adopted.database.pool(1), ResourceTypes::none());
    execute(&adopted.superuser, "UPDATE tenant.idempotency_keys SET expires = now()").await;
    assert_eq!(store.sweep(10).await.expect("the store answers"), 1);
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run again");
    adopted.drop_roles().await;
}

#[tokio::test]
async fn replays_what_a_go_server_recorded_and_serves_every_operation() {
    let adopted = Adopted::new().await;
    works(&adopted.database).await;
    let store = PostgresStore::new(adopted.database.pool(2), adopted.types.clone());
    let old = claim(
        "00000000-0000-7000-8000-000000000002".parse().expect("a UUID"),
        "00000000-0000-7000-8000-000000000001".parse().expect("a UUID"),
    );
    assert!(replay_of(&store, &old).await.resource.is_some());

    let cluster: Uuid = value(&adopted.superuser, "INSERT INTO tenant.clusters DEFAULT VALUES RETURNING id").await;
    let resource = Some(Resource { resource_type: "cluster".to_owned(), id: cluster.into() });
    let created = Completion { resource, ..completion("done") };
    let first = Claim { resource_type: Some("cluster".to_owned()), ..new_claim() };
    commit(&store, &first, created).await;
    assert_eq!(replay_of(&store, &first).await.resource, Some(cluster.into()));
    acquire(&store, &new_claim()).await;
    execute(&adopted.superuser, "UPDATE tenant.idempotency_keys SET expires = now() - interval '1 day'").await;
    assert_eq!(store.sweep(10).await.expect("the store answers"), 4);
    assert_eq!(count(&adopted.superuser, "tenant.idempotency_keys").await, 0);
    adopted.drop_roles().await;
}

/// Before, while changes are mirrored, and after; its own rows and policies included.
#[tokio::test]
async fn leaves_the_go_service_its_statements_on_the_way_to_partitions() {
    let adopted = Adopted::new().await;
    let owner = adopted.as_role(&adopted.owner).await;
    let go = adopted.as_role(&adopted.go).await;
    migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
    let store = PostgresStore::new(adopted.database.pool(1), adopted.types.clone());
    let reserve = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
                   VALUES ($1, $2, $3, $4, now() + interval '24 hours') ON CONFLICT DO NOTHING";
    let complete = "UPDATE tenant.idempotency_keys SET response_bytes = 'go' WHERE response_bytes IS NULL";
    let mut done = Vec::new();
    let rights_before = rights(&adopted.superuser).await;
    for step in ["before", "mirrored", "after"] {
        let (user, key) = (Uuid::new_v4(), Uuid::new_v4());
        let set = "SELECT set_config('app.current_user_id', $1, false)";
        go.query_typed(set, &[(&user.to_string(), Type::TEXT)]).await.expect("the user is set");
        let parameters: Parameters<'_> =
            &[(&key, Type::UUID), (&user, Type::UUID), (&PROCEDURE, Type::TEXT), (&HASH.as_slice(), Type::BYTEA)];
        assert_eq!(go.execute_typed(reserve, parameters).await.expect("the reservation"), 1, "{step}");
        if step == "before" {
            let done = "SELECT s.step = 'mirrored' FROM tenant.idempotency_move_step(4, 500, NULL) s";
            while !value::<bool>(&owner, done).await {}
        }
        assert_eq!(go.execute(complete, &[]).await.expect("the completion"), 1, "{step}");
        assert_eq!(
            go.execute(reserve, &[&key, &user, &PROCEDURE, &HASH.as_slice()]).await.expect("a retry"),
            0,
            "{step}"
        );
        if step == "mirrored" {
            migrations::move_to_partitions(&owner, &Schema::default(), 4).await.expect("the way over");
        }
        done.push(claim(user, key));
        for claim in &done {
            replay_of(&store, claim).await;
        }
    }
    // The Go service's record from before our migrations, with its project.
    let old = claim(
        "00000000-0000-7000-8000-000000000002".parse().expect("a UUID"),
        "00000000-0000-7000-8000-000000000001".parse().expect("a UUID"),
    );
    assert!(replay_of(&store, &old).await.resource.is_some());
    let rights = rights(&adopted.superuser).await;
    let lost: Vec<_> = rights_before.iter().filter(|line| !line.contains("policy") && !rights.contains(line)).collect();
    assert_eq!(lost, Vec::<&String>::new(), "rights on the table");
    adopted.drop_roles().await;
}

/// Has the Go service's own policy and function apply to the API's role.
fn shared() -> String {
    format!(
        "ALTER POLICY idempotency_keys_fundament_api_policy ON tenant.idempotency_keys TO {API_ROLE};
         GRANT EXECUTE ON FUNCTION authn.current_user_id() TO {API_ROLE}"
    )
}

/// Also several calls in one statement, by the layer's own policy, and then by that of the Go service, too. That one's function may
/// fail the look: the planner calls it before there is a user. The calls go alone then.
#[tokio::test]
async fn serves_every_operation_and_several_calls_in_one_statement() {
    let adopted = Adopted::new().await;
    for policies in ["", &shared()] {
        execute(&adopted.superuser, policies).await;
        let store = PostgresStore::new(adopted.database.pool(1), adopted.types.clone());
        let [recorded, released, abandoned, begun] = [(); 4].map(|()| new_claim());
        for claim in [&recorded, &released, &abandoned] {
            acquire(&store, claim).await;
            extend(&store, claim, HOUR).await;
        }
        record(&store, &recorded, "done").await;
        release(&store, &released).await;
        abandon(&store, &abandoned).await;
        commit(&store, &begun, completion("done")).await;
        for claim in [&recorded, &begun] {
            replay_of(&store, claim).await;
        }
        let api = adopted.as_role(API_ROLE).await;
        let claims = [(); 3].map(|()| new_claim());
        let all = claims.each_ref();
        let look = async || {
            let found = statements::look(&api, &all).await;
            assert!(found.is_ok() || !policies.is_empty(), "{found:?}");
            found.ok().map(|found| statements::texts(&found, "state"))
        };
        assert!(look().await.is_none_or(|found| found == [None, None, None]));
        assert_eq!(statements::reserve(&api, &all).await.expect("a reservation"), [true; 3]);
        let held = claims.each_ref().map(|claim| claim.reservation);
        let recorded = statements::complete(&api, &held, &[Outcome::DONE; 3]).await;
        assert_eq!(recorded.expect("a completion"), [true; 3]);
        assert!(look().await.is_none_or(|found| found == [(); 3].map(|()| Some("completed".to_owned()))));
    }
    adopted.drop_roles().await;
}
