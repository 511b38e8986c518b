//! The database of the sample, as the API's own role: what one organisation can do to another.

use tonic_idempotency_tests::OUTBOX_POLICY;

use crate::prelude::*;

/// A database as the sample's migrations make it.
async fn sample() -> Database {
    let (database, owner) = Database::with_owner().await;
    owner.batch_execute(&format!("DROP POLICY {OUTBOX_POLICY} ON authz.outbox")).await.expect("the policy goes");
    database
}

/// A connection of the API's role, as a user of another organisation than the one that every database has.
async fn stranger(database: &Database) -> Client {
    let (organization, user) = (Uuid::new_v4(), Uuid::new_v4());
    let owner = database.owner().await;
    let sql = format!(
        "INSERT INTO tenant.organizations (id, name) VALUES ('{organization}', 'another');
             INSERT INTO tenant.users (id, organization_id, name) VALUES ('{user}', '{organization}', 'stranger')"
    );
    owner.batch_execute(&sql).await.expect("another organisation");
    as_user(database, user).await
}

async fn as_user(database: &Database, user: Uuid) -> Client {
    let api = database.api().await;
    api.batch_execute(&format!("SET app.current_user_id = '{user}'")).await.expect("the user");
    api
}

/// It runs with its owner's rights, and would write rows of any organisation.
#[tokio::test]
async fn the_outboxs_trigger_function_cannot_be_put_on_a_table_of_ones_own() {
    let database = sample().await;
    let project = database.project(None).await;
    let stranger = stranger(&database).await;
    stranger.batch_execute("CREATE TEMPORARY TABLE mine (id uuid, organization_id uuid)").await.expect("a table");
    let trigger = "CREATE TRIGGER mine AFTER INSERT ON mine FOR EACH ROW
                   EXECUTE FUNCTION authz.outbox_resource_created('project')";
    let error = stranger.batch_execute(trigger).await.expect_err("the function is the owner's");
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    let insert = "INSERT INTO mine VALUES ($1, NULL)";
    stranger.query_typed(insert, &[(&uuid_of(&project), Type::UUID)]).await.expect("a row");
    let rows = format!("authz.outbox WHERE project_id = '{}'", project.id);
    assert_eq!(count(&database.owner().await, &rows).await, 0);
}

#[tokio::test]
async fn a_project_of_another_organisation_is_not_deleted() {
    let database = sample().await;
    let project = database.project(None).await;
    let delete = "DELETE FROM tenant.projects WHERE id = $1";
    let stranger = stranger(&database).await;
    assert_eq!(stranger.execute_typed(delete, &[(&uuid_of(&project), Type::UUID)]).await.expect("a statement"), 0);
    assert_eq!(count(&database.owner().await, "tenant.projects").await, 1);
}

#[tokio::test]
async fn two_organisations_may_have_nodes_with_the_same_id() {
    let database = sample().await;
    let member = as_user(&database, database.user().await.id).await;
    for (user, nodes) in [(member, 1), (stranger(&database).await, 2)] {
        let insert = "WITH cluster AS (INSERT INTO tenant.clusters (name, region) VALUES ('c', 'nl-1') RETURNING id)
                      INSERT INTO tenant.nodes (id, cluster_id, machine_type) SELECT 'rack4-17', id, 'm1' FROM cluster
                      ON CONFLICT (organization_id, id) DO NOTHING";
        assert_eq!(user.execute_typed(insert, &[]).await.expect("a statement"), 1);
        assert_eq!(count(&user, "tenant.nodes").await, 1);
        assert_eq!(count(&database.owner().await, "tenant.nodes").await, nodes);
    }
}

#[tokio::test]
async fn the_outbox_of_another_organisation_is_not_visible() {
    let database = sample().await;
    database.project(Some(OutboxStatus::Completed)).await;
    let user = as_user(&database, database.user().await.id).await;
    assert_eq!(count(&stranger(&database).await, "authz.outbox").await, 0);
    assert!(count(&user, "authz.outbox").await >= 2);
}

#[tokio::test]
async fn the_mail_of_an_invitation_cannot_be_taken_by_another_organisation() {
    let database = sample().await;
    let user = as_user(&database, database.user().await.id).await;
    let invitation =
        "INSERT INTO tenant.organization_users (email, role) VALUES ('a@example.com', 'viewer') RETURNING id";
    let invitation: Uuid = value(&user, invitation).await;
    let send = "INSERT INTO tenant.mails (invitation_id, recipient) VALUES ($1, 'a@example.com')
                ON CONFLICT (organization_id, invitation_id) DO NOTHING";
    let parameters: Parameters<'_> = &[(&invitation, Type::UUID)];
    let error = stranger(&database).await.execute_typed(send, parameters).await.expect_err("of another organisation");
    assert_eq!(error.code(), Some(&SqlState::FOREIGN_KEY_VIOLATION));
    for sent in [1, 0] {
        assert_eq!(user.execute_typed(send, parameters).await.expect("the mail"), sent);
    }
}

/// As the API's role logs in, the functions of the sample are the owner's, or granted by name.
#[tokio::test]
async fn nobody_can_execute_a_function_that_was_not_granted() {
    let database = sample().await;
    let public = "SELECT p.oid::regprocedure::text FROM pg_proc p
                  CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                  WHERE p.pronamespace::regnamespace::text IN ('tenant', 'authn', 'authz') AND a.grantee = 0";
    assert_eq!(values::<String>(&database.owner().await, public).await, [""; 0]);
}
