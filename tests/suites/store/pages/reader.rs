//! A reader who follows a page, as each of its roles.

use tokio_postgres::SimpleQueryMessage;

use super::statements::{Packs, Statements};
use crate::operators::Operated;
use crate::prelude::*;

/// A service with the records of the pages' caller, and the pages' roles.
pub(super) struct Reader {
    pub(super) operated: Operated,
    pub(super) owner: Client,
    /// Each role of the pages, with its name here.
    names: [(&'static str, String); 6],
    /// Reserved, with the key and the token of the page of operations.
    pub(super) stuck: Claim,
    /// Completed, of the same caller.
    pub(super) done: Claim,
}

impl Reader {
    pub(super) async fn with(packs: Packs) -> Self {
        let operated = Operated::new().await;
        let owner = operated.database.owner().await;
        owner.batch_execute(&format!("SET ROLE {}", operated.owner)).await.expect("the owner");
        if packs == Packs::Both {
            migrations::limits(&owner, &Schema::default()).await.expect("the limits");
            migrations::partitions(&owner, &Schema::default()).await.expect("what partitions need");
        }
        let unique = |role: &str| format!("{role}_{}", Uuid::new_v4().simple());
        let analyst = unique("idempotency_tests_analyst");
        operated.superuser.batch_execute(&format!("CREATE ROLE {analyst}")).await.expect("a role");
        let names = [
            ("my_operator_role", unique("idempotency_tests_operator")),
            ("my_backup_role", unique("idempotency_tests_backup")),
            ("my_analyst_role", analyst),
            ("my_owner_role", operated.owner.clone()),
            ("my_api_role", API_LOGIN.to_owned()),
            ("my_api", API_LOGIN.to_owned()),
        ];
        let user = UserId::from_text("auth0|5f7c8ec7").expect("a user");
        let caller = Caller::new(user).in_scope(Scope::from_text("acme").expect("a scope"));
        let of_caller = |key| Claim { resource_type: None, ..claim(*caller.owner().as_uuid(), key) };
        let stuck = of_caller("8e03978e-40d5-43dd-bc93-6894a57f9324".parse().expect("a key"));
        let token = "d3a1f0c2-6f0e-4c57-9d52-6c1f3a0b7e11".parse().expect("a token");
        let stuck = Claim { reservation: Reservation { token, ..stuck.reservation }, ..stuck };
        acquire(&operated.store, &stuck).await;
        let done = of_caller(Uuid::new_v4());
        complete(&operated.store, &done, &completion("done")).await;
        Self { operated, owner, names, stuck, done }
    }

    pub(super) fn name(&self, role: &str) -> &str {
        &self.names.iter().find(|(name, _)| *name == role).expect("a role").1
    }

    /// Runs statements as their role. Returns the first column of all rows.
    pub(super) async fn run(&self, statements: &Statements) -> Vec<String> {
        let client = self.connection_of(&statements.role).await;
        if let Some(table) = statements.table() {
            self.make(table).await;
        }
        let mut rows = Vec::new();
        for statement in statements.each() {
            let statement = self.names.iter().fold(statement, |text, (role, name)| text.replace(role, name));
            match &statements.takes {
                Some(types) => execute_with(&client, &statement, types).await,
                None => rows.extend(query(&client, &statement).await),
            }
        }
        rows
    }

    async fn connection_of(&self, role: &str) -> Client {
        match role.split([' ', ',']).take(2).collect::<Vec<_>>()[..] {
            ["a", "superuser"] => self.operated.database.owner().await,
            ["the", "API" | "worker"] => self.operated.database.api().await,
            ["the", "operator"] => self.operated.database.login(self.name("my_operator_role")).await,
            ["the", "owner"] => {
                let client = self.operated.database.owner().await;
                client.batch_execute(&format!("SET ROLE {}", self.operated.owner)).await.expect("the owner");
                client
            }
            _ => panic!("who is {role}?"),
        }
    }

    /// Makes a table of the application.
    async fn make(&self, table: &str) {
        let (name, _) = table.split_once(' ').expect("a table");
        let schema = name
            .split_once('.')
            .map(|(schema, _)| format!("CREATE SCHEMA IF NOT EXISTS {schema};"))
            .unwrap_or_default();
        execute(&self.owner, &format!("{schema} CREATE TABLE {table}; GRANT ALL ON {name} TO {API_ROLE}")).await;
    }

    /// Drops the roles, as far as they were made.
    pub(super) async fn leave(self) {
        let roles = ["my_operator_role", "my_backup_role", "my_analyst_role"].map(|role| self.name(role).to_owned());
        let superuser = self.operated.database.owner().await;
        drop(self.owner);
        for role in roles {
            let drop = format!(
                "DO $$ BEGIN
                     IF to_regrole('{role}') IS NOT NULL THEN
                         DROP OWNED BY {role}; DROP ROLE {role};
                     END IF;
                 END $$"
            );
            superuser.batch_execute(&drop).await.expect("the role goes");
        }
        // The database goes with it, and all of its sessions.
        drop(superuser);
        self.operated.drop_owner().await;
    }
}

/// Returns the first column of the rows.
async fn query(client: &Client, statement: &str) -> Vec<String> {
    let messages = client.simple_query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    rows.collect()
}

/// Runs a statement that has parameters of these types, with some value for each.
async fn execute_with(client: &Client, statement: &str, types: &str) {
    let prepared = client.prepare(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let taken: Vec<_> = prepared.params().iter().map(Type::name).collect();
    assert_eq!(taken.join(", "), types, "{statement}");
    let value = |of: &Type| -> Box<dyn ToSql + Sync> {
        match *of {
            Type::UUID => Box::new(Uuid::new_v4()),
            Type::TEXT => Box::new("a text"),
            Type::BYTEA => Box::new(b"bytes".to_vec()),
            Type::INT4 => Box::new(1_i32),
            _ => panic!("a value of {of}"),
        }
    };
    let values: Vec<_> = prepared.params().iter().map(value).collect();
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value).collect();
    client.execute(&prepared, &values).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
}
