//! The store's statements, as the application's instrumentation of diesel sees them.

use std::sync::{Arc, Mutex};

use diesel::connection::{Instrumentation, InstrumentationEvent};
use diesel_async::{AsyncConnection as _, SimpleAsyncConnection as _};
use driver_suite::{Call, Service};
use tonic_idempotency_tests::{API_ROLE, Database};

use crate::stack::{Deadpool, DeadpoolStack, pool};

/// The texts of statements.
type Shown = Arc<Mutex<Vec<String>>>;

struct Watch(Shown);

impl Instrumentation for Watch {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if let InstrumentationEvent::StartQuery { query, .. } = event {
            self.0.lock().expect("no panic").push(query.to_string());
        }
    }
}

#[tokio::test]
async fn is_not_shown_keys_and_responses() {
    let database = Database::new().await;
    let shown = Shown::default();
    let watch = Arc::clone(&shown);
    let pool: Deadpool = pool(database.url(), 1, move |connection| {
        connection.set_instrumentation(Watch(Arc::clone(&watch)));
        Box::pin(async move { connection.batch_execute(&format!("SET ROLE {API_ROLE}")).await })
    });
    let script = |call: Call<DeadpoolStack>| async move { call.insert().await };
    let service = Service::new(&database, pool, script).await;
    let first = service.create("shop").await.expect("a call");
    service.create("shop").await.expect("a replay");

    let shown = shown.lock().expect("no panic");
    let binds = |function: &str| {
        let statement = shown.iter().find(|statement| statement.contains(function)).expect("the statement is shown");
        statement.split_once("binds: ").expect("its parameters").1.to_owned()
    };
    assert_eq!(
        binds("idempotency_begin"),
        "[uuid, uuid, uuid, text, bytea, bytea, double precision, double precision, text, text, text, uuid, text[], double precision]"
    );
    assert_eq!(
        binds("idempotency_is_free"),
        "[uuid, uuid, uuid, double precision, uuid, text[], double precision, boolean]"
    );
    assert!(binds("INSERT INTO tenant.idempotency_keys").starts_with("[uuid, uuid, uuid, uuid, text, bytea,"));
    for secret in [service.key.expect("a key"), service.user.expect("a user"), first.project] {
        assert!(!shown.iter().any(|statement| statement.contains(&secret.to_string())), "{shown:?}");
    }
}
