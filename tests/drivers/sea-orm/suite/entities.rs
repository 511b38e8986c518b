//! Entities: the code of an application runs on its `DatabaseConnection` and in the transaction of a call.

use sea_orm::{
    ActiveValue::{NotSet, Set},
    DbErr, FromQueryResult, IntoActiveModel as _, QueryOrder as _, SqlErr,
    entity::prelude::*,
    raw_sql,
};
use tokio_postgres::Client;
use tonic_idempotency_tests::Database;

use crate::harness::{begin, connect};

mod label {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "labels")]
    pub(crate) struct Model {
        #[sea_orm(primary_key)]
        pub(crate) id: i64,
        pub(crate) owner: Uuid,
        #[sea_orm(unique)]
        pub(crate) name: String,
        pub(crate) color: Option<String>,
        pub(crate) aliases: Vec<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[derive(Debug, PartialEq, FromQueryResult)]
struct Named {
    name: String,
    length: i32,
}

async fn with_labels() -> (Database, Client, sea_orm::DatabaseConnection) {
    let database = Database::new().await;
    let owner = database.owner().await;
    owner
        .batch_execute(
            "CREATE TABLE public.labels (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner uuid NOT NULL,
                                         name text NOT NULL UNIQUE, color text, aliases text[] NOT NULL);
             GRANT ALL ON public.labels TO PUBLIC",
        )
        .await
        .expect("the table");
    let connection = connect(&database);
    (database, owner, connection)
}

fn label(name: &str) -> label::ActiveModel {
    label::ActiveModel {
        id: NotSet,
        owner: Set(Uuid::new_v4()),
        name: Set(name.to_owned()),
        color: Set(None),
        aliases: Set(vec!["a".to_owned(), "it's".to_owned()]),
    }
}

/// Works with the entities as an application does.
async fn work(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    let new = label("urgent");
    let owner = new.owner.clone().unwrap();
    let urgent = new.insert(db).await?;
    assert_eq!((urgent.owner, urgent.aliases.len(), urgent.color.as_deref()), (owner, 2, None));
    assert_eq!(label::Entity::find_by_id(urgent.id).one(db).await?.as_ref(), Some(&urgent));
    assert_eq!(label::Entity::find_by_id(0).one(db).await?, None);

    label::Entity::insert_many(["late", "done"].map(label)).exec(db).await?;
    let mut changed = urgent.into_active_model();
    changed.color = Set(Some("red".to_owned()));
    assert_eq!(changed.update(db).await?.color.as_deref(), Some("red"));
    let late = label::Entity::find().filter(label::Column::Name.eq("late")).one(db).await?.expect("it is there");
    assert_eq!(late.delete(db).await?.rows_affected, 1);

    let all = label::Entity::find().order_by_asc(label::Column::Name).all(db).await?;
    assert_eq!(all.iter().map(|label| &*label.name).collect::<Vec<_>>(), ["done", "urgent"]);
    assert_eq!(label::Entity::find().count(db).await?, 2);
    assert_eq!(label::Entity::find().paginate(db, 1).fetch_page(1).await?.len(), 1);

    let name = "urgent";
    let named = Named::find_by_statement(raw_sql!(
        Postgres,
        "SELECT name, length(name) AS length FROM public.labels WHERE name = {name}"
    ));
    assert_eq!(named.one(db).await?, Some(Named { name: name.to_owned(), length: 6 }));
    Ok(())
}

#[tokio::test]
async fn are_read_and_written_as_on_a_pool() {
    let (_database, owner, connection) = with_labels().await;
    work(&connection).await.expect("sea-orm's own");
    owner.batch_execute("DELETE FROM public.labels").await.expect("an empty table");
    let transaction = begin(&connection).await;
    work(&*transaction).await.expect("the same");
    assert_eq!(label::Entity::find().count(&connection).await.expect("the count"), 0, "nobody else sees them");
    transaction.commit().await.expect("it commits");
    assert_eq!(label::Entity::find().count(&connection).await.expect("the count"), 2);

    owner.batch_execute("DELETE FROM public.labels").await.expect("an empty table");
    let transaction = begin(&connection).await;
    let savepoint = sea_orm::TransactionTrait::begin(&*transaction).await.expect("a savepoint");
    work(&savepoint).await.expect("the same");
    savepoint.rollback().await.expect("it is rolled back");
    assert_eq!(label::Entity::find().count(&*transaction).await.expect("the count"), 0);
}

#[tokio::test]
async fn have_the_errors_of_sea_orm() {
    let (_database, _owner, connection) = with_labels().await;
    let transaction = begin(&connection).await;
    label("urgent").insert(&*transaction).await.expect("a label");
    let twice = label("urgent").insert(&*transaction).await.expect_err("the name is taken");
    assert!(matches!(twice.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))), "{twice:?}");
}
