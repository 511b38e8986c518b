//! A service with an operator, whose table belongs to a role of its own.

use crate::prelude::*;

/// A service, and the connection of its operator.
pub(crate) struct Operated {
    pub(crate) database: Database,
    pub(crate) store: PostgresStore,
    pub(crate) operator: Client,
    /// The role that owns the table. It is not a superuser.
    pub(crate) owner: String,
    /// A superuser.
    pub(crate) superuser: Client,
}

impl Operated {
    pub(crate) async fn new() -> Self {
        Self::with(&Schema::default()).await
    }

    pub(super) async fn with(schema: &Schema) -> Self {
        let database = Database::empty().await;
        let superuser = database.owner().await;
        let operator = database.login(OPERATOR).await;
        let (owner, mut client) = plain_owner(&database).await;
        migrate(&mut client, schema).await;
        migrations::grant(&client, schema, API_ROLE).await.expect("the grant");
        migrations::grant_operator(&client, schema, OPERATOR).await.expect("the grant");
        let store = PostgresStore::new(database.pool_of_login(4).await, ResourceTypes::none())
            .schema(schema.clone())
            .timeout(Duration::from_secs(30));
        Self { database, store, operator, owner, superuser }
    }

    pub(crate) async fn inspect(&self, claim: &Claim) -> Row {
        let [key, user] = texts(claim);
        let inspect = "SELECT *, lease_left BETWEEN interval '59 min' AND interval '1 hour' AS lease_is_left
                       FROM tenant.idempotency_inspect($1, $2)";
        self.operator.query_typed_one(inspect, &[(&key, Type::TEXT), (&user, Type::TEXT)]).await.expect("an answer")
    }

    pub(super) async fn state(&self, claim: &Claim) -> String {
        self.inspect(claim).await.get("state")
    }

    /// Releases a key, and returns the outcome and the process id.
    pub(super) async fn release(&self, claim: &Claim, token: Option<Uuid>) -> (String, Option<i32>) {
        let [key, user] = texts(claim);
        let release = "SELECT * FROM tenant.idempotency_operator_release($1, $2, $3, p_reason => 'a ticket')";
        let parameters: Parameters<'_> = &[(&key, Type::TEXT), (&user, Type::TEXT), (&token, Type::UUID)];
        let row = self.operator.query_typed_one(release, parameters).await.expect("an answer");
        assert!(!row.get::<_, &str>("hint").is_empty());
        (row.get("outcome"), row.get("holder_pid"))
    }

    /// Evicts a record, and returns the outcome and the hint.
    pub(super) async fn evict(&self, claim: &Claim, token: Option<Uuid>, run_again: bool) -> (String, String) {
        let [key, user] = texts(claim);
        let evict = "SELECT * FROM tenant.idempotency_evict($1, $2, $3, p_reason => 'a ticket', p_run_again => $4)";
        let parameters: Parameters<'_> =
            &[(&key, Type::TEXT), (&user, Type::TEXT), (&token, Type::UUID), (&run_again, Type::BOOL)];
        let row = self.operator.query_typed_one(evict, parameters).await.expect("an answer");
        (row.get("outcome"), row.get("hint"))
    }

    /// Erases a page of a user's records. Returns how many were erased, how many remain, and where the next page begins.
    pub(super) async fn erase(&self, user: Uuid, batch: i32, reached: Option<Uuid>) -> (i64, i64, Option<Uuid>) {
        let erase = "SELECT * FROM tenant.idempotency_erase($1::uuid::text, NULL, 'a ticket', $2, $3)";
        let parameters: Parameters<'_> = &[(&user, Type::UUID), (&batch, Type::INT4), (&reached, Type::UUID)];
        let row = self.operator.query_typed_one(erase, parameters).await.expect("an answer");
        (row.get("erased"), row.get("remaining"), row.get("reached"))
    }

    /// The number of rows of the layer's tables that have this text, as letters or as bytes.
    pub(super) async fn rows_with(&self, text: &str) -> i64 {
        let tables = "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = 'tenant'::regnamespace
                      AND c.relkind = 'r' AND starts_with(c.relname, 'idempotency_')";
        let mut rows = 0;
        for table in values::<String>(&self.superuser, tables).await {
            let found = "strpos(t::text, $1) + strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0";
            let count = format!("SELECT count(*) FROM {table} t WHERE {found}");
            let count = self.superuser.query_typed_one(&count, &[(&text, Type::TEXT)]).await.expect("the count");
            rows += count.get::<_, i64>(0);
        }
        rows
    }

    /// Changes a column of a key's row, as time or another program does.
    pub(super) async fn set(&self, claim: &Claim, to: &str) {
        let [key, user] = texts(claim);
        let set =
            format!("UPDATE tenant.idempotency_keys SET {to} WHERE idempotency_key = '{key}' AND user_id = '{user}'");
        assert_eq!(self.superuser.execute(&set, &[]).await.expect("a change"), 1, "{to}");
    }

    /// The lines of the audit, oldest first.
    pub(super) async fn audit(&self) -> Vec<String> {
        let select = "SELECT concat_ws(' ', operator, action, state, outcome, reason) FROM tenant.idempotency_audit ORDER BY happened";
        values(&self.superuser, select).await
    }

    pub(crate) async fn drop_owner(self) {
        let Self { superuser, owner, operator, store, .. } = self;
        drop((operator, store));
        drop_roles(&superuser, &[&owner]).await;
    }
}

/// The key and the user of a claim, as texts.
pub(super) fn texts(claim: &Claim) -> [String; 2] {
    [*claim.reservation.key.as_uuid(), *claim.reservation.owner.as_uuid()].map(|id| id.to_string())
}
