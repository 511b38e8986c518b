//! Log lines of the statements.

use sea_orm::{
    ConnectOptions, ConnectionTrait as _, Database as Connector, DbBackend, RuntimeErr, Statement,
    TransactionTrait as _, sqlx::Executor as _,
};
use tonic::Status;
use tonic_idempotency_sea_orm::TransactionError;
use tonic_idempotency_tests::{Database, Lines};
use tracing::level_filters::LevelFilter;

use crate::harness::begin;

const SECRET: &str = "the value that must not be logged";

#[tokio::test]
async fn have_no_values() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let make = "CREATE TABLE public.secrets (secret text UNIQUE); GRANT ALL ON public.secrets TO PUBLIC";
    owner.batch_execute(make).await.expect("the table");
    let (lines, _guard) = Lines::collect(LevelFilter::TRACE);

    // With everything that sea-orm logs.
    let connection = Connector::connect(ConnectOptions::new(database.url())).await.expect("a server");
    let role = format!("SET ROLE {}", tonic_idempotency_tests::API_ROLE);
    connection.get_postgres_connection_pool().execute(sea_orm::sqlx::AssertSqlSafe(role)).await.expect("the role");
    let transaction = begin(&connection).await;
    let insert = || {
        let insert = "INSERT INTO public.secrets VALUES ($1) RETURNING secret";
        Statement::from_sql_and_values(DbBackend::Postgres, insert, [SECRET.into()])
    };
    transaction.query_one_raw(insert()).await.expect("a secret").expect("a row");
    let savepoint = transaction.begin().await.expect("a savepoint");
    let twice = savepoint.execute_raw(insert()).await.expect_err("it is there");
    let detail = format!("{twice:?}");
    assert!(detail.contains(SECRET), "the server's answer quotes it: {detail}");
    assert!(matches!(&twice, sea_orm::DbErr::Exec(RuntimeErr::SqlxError(_))));
    let twice = TransactionError::from(twice);
    let shown = format!("{twice:?} {twice}");
    assert!(!shown.contains(SECRET), "{shown}");
    drop(Status::from(twice));
    drop(savepoint);
    transaction.commit().await.expect("it commits");

    let logged = lines.take();
    assert!(logged.contains("INSERT INTO public.secrets"), "sqlx logs the statement: {logged}");
    assert!(logged.contains("a statement of a transactional handler failed"), "{logged}");
    assert!(!logged.contains(SECRET), "{logged}");
}
