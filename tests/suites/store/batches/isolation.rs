//! Each row of a statement is its own owner's, is read as its own user of the application, and with its own settings.

use tonic_idempotency_tests::OUTBOX_POLICY;

use super::statements::{self, Outcome, texts};
use crate::prelude::*;

/// Policies that an application may have added to the table, and that are evaluated once for each statement, or show every user
/// all rows.
const POLICIES: [&str; 5] = [
    "USING (true)",
    "USING (user_id = (SELECT nullif(current_setting('idempotency.owner', true), '')::uuid))",
    "USING (user_id = (SELECT authn.current_user_id()))",
    "AS RESTRICTIVE USING (user_id = (SELECT nullif(current_setting('idempotency.owner', true), '')::uuid))",
    "AS RESTRICTIVE USING (user_id = (SELECT authn.current_user_id()))",
];

/// Turns a list around by some places.
fn turned<T: Clone>(list: &[T], places: usize) -> Vec<T> {
    let mut list = list.to_vec();
    list.rotate_left(places);
    list
}

fn of(owner: Uuid, reservation: Reservation) -> Reservation {
    Reservation { owner: OwnerId::new(owner), ..reservation }
}

fn owner_of(claim: &Claim) -> Uuid {
    *claim.reservation.owner.as_uuid()
}

async fn policy(owner: &Client, policy: &str) {
    let create = format!(
        "DROP POLICY IF EXISTS added ON tenant.idempotency_keys; CREATE POLICY added ON tenant.idempotency_keys {policy}"
    );
    owner.batch_execute(&create).await.expect(policy);
}

/// Some calls of several users, two of which have the same key.
fn calls() -> Vec<Claim> {
    let [alice, bob, carol] = [(); 3].map(|()| Uuid::new_v4());
    let shared = Uuid::new_v4();
    [(alice, shared), (bob, shared), (alice, Uuid::new_v4()), (carol, Uuid::new_v4()), (bob, Uuid::new_v4())]
        .map(|(user, key)| claim(user, key))
        .to_vec()
}

#[tokio::test]
async fn each_user_has_its_own_rows_and_no_others_in_any_order() {
    let database = Database::new().await;
    let api = database.api().await;
    for places in 0..5 {
        let claims = turned(&calls(), places);
        let all: Vec<_> = claims.iter().collect();
        assert_eq!(statements::reserve(&api, &all).await.expect("a reservation"), [true; 5]);
        let reservations: Vec<_> = claims.iter().map(|claim| claim.reservation).collect();
        let responses: Vec<_> = claims.iter().map(|claim| claim.reservation.token.to_string()).collect();
        let outcomes = responses.iter().map(|it| Outcome { response: Some(it.as_bytes()), ..Outcome::DONE });
        let outcomes: Vec<_> = outcomes.collect();
        assert_eq!(statements::complete(&api, &reservations, &outcomes).await.expect("a completion"), [true; 5]);
        let found = statements::look(&api, &all).await.expect("a look");
        for (row, response) in found.iter().zip(&responses) {
            assert_eq!(row.as_ref().expect("a row").get::<_, &[u8]>("response"), response.as_bytes());
        }
    }
}

/// An application may have another user in its own settings, for a support's session, say.
#[tokio::test]
async fn a_row_is_found_whatever_user_the_applications_settings_name() {
    let database = Database::new().await;
    let (api, store) = (database.api().await, database.store());
    let settings = |user: Uuid| Some(Arc::new(SessionSettings::new().set("app.current_user_id", user.to_string())));
    let claims: Vec<_> = calls()
        .into_iter()
        .map(|claim| Claim { session: CallSession { settings: settings(Uuid::new_v4()), ..claim.session }, ..claim })
        .collect();
    for claim in &claims {
        complete(&store, claim, &completion("done")).await;
    }
    let again: Vec<_> = claims.iter().map(again).collect();
    let found = statements::look(&api, &again.iter().collect::<Vec<_>>()).await.expect("a look");
    assert_eq!(texts(&found, "state"), [(); 5].map(|()| Some("completed".to_owned())));
}

/// A user asks for the key of another user, and even knows its token, in a statement in which that user takes part.
#[tokio::test]
async fn a_key_of_another_user_is_neither_seen_nor_touched_whatever_policies_were_added() {
    let database = Database::new().await;
    let (owner, api, store) = (database.owner().await, database.api().await, database.store());
    for added in POLICIES {
        let (alice, bob) = (new_claim(), new_claim());
        policy(&owner, "USING (false)").await;
        for claim in [&alice, &bob] {
            acquire(&store, claim).await;
        }
        policy(&owner, added).await;
        let before = statements::row(&database, &alice).await;
        let stolen = of(owner_of(&bob), alice.reservation);
        let thief = Claim { reservation: stolen, ..bob.clone() };
        for places in 0..3 {
            let found = statements::look(&api, &turned(&[&bob, &thief, &alice], places)).await.expect("a look");
            let found = turned(&texts(&found, "state"), 3 - places);
            assert_eq!(found[1], None, "{added}");
        }
        let recorded = statements::complete(&api, &[stolen, bob.reservation], &[Outcome::DONE; 2]).await;
        assert!(!recorded.expect("a completion")[0], "{added}");
        assert_eq!(statements::row(&database, &alice).await, before, "{added}");
    }
}

/// A policy that is evaluated once for each statement hides rows, or refuses the statement: the calls go alone then.
#[tokio::test]
async fn a_policy_that_is_evaluated_once_leads_to_no_wrong_answer() {
    let database = Database::new().await;
    let (owner, api, store) = (database.owner().await, database.api().await, database.store());
    for added in POLICIES {
        let claims = calls();
        policy(&owner, "USING (false)").await;
        for claim in &claims {
            let response = claim.reservation.token.to_string().leak();
            complete(&store, claim, &completion(response)).await;
        }
        policy(&owner, added).await;
        let found = statements::look(&api, &claims.iter().collect::<Vec<_>>()).await.expect("a look");
        assert!(found.iter().any(Option::is_some), "{added}");
        for (row, claim) in found.iter().zip(&claims).filter_map(|(row, claim)| Some((row.as_ref()?, claim))) {
            let token = claim.reservation.token.to_string();
            assert_eq!(row.get::<_, &[u8]>("response"), token.as_bytes(), "{added}");
        }
        let others = calls();
        let reserved = statements::reserve(&api, &others.iter().collect::<Vec<_>>()).await;
        let select = "SELECT count(*) FROM tenant.idempotency_keys WHERE token = ANY($1)";
        let tokens: Vec<_> = others.iter().map(|claim| claim.reservation.token).collect();
        let made = owner.query_typed_one(select, &[(&tokens, Type::UUID_ARRAY)]).await.expect("the rows");
        let expected = reserved.map_or(0, |reserved| reserved.iter().filter(|it| **it).count());
        assert_eq!(usize::try_from(made.get::<_, i64>(0)).expect("a number"), expected, "{added}");
    }
}

/// Makes a user of an organisation of its own, with a project whose status is `completed`.
async fn user_with_project(owner: &Client) -> (Uuid, Resource) {
    let [organization, user, cluster, project] = [(); 4].map(|()| Uuid::new_v4());
    let sql = format!(
            "INSERT INTO tenant.organizations (id, name) VALUES ('{organization}', 'an organisation');
             INSERT INTO tenant.users (id, organization_id, name) VALUES ('{user}', '{organization}', 'user');
             INSERT INTO tenant.clusters (id, organization_id, name, region) VALUES ('{cluster}', '{organization}', 'c', 'here');
             INSERT INTO tenant.projects (id, organization_id, cluster_id, name)
             VALUES ('{project}', '{organization}', '{cluster}', 'a');
             UPDATE authz.outbox SET status = 'completed' WHERE project_id = '{project}'"
        );
    owner.batch_execute(&sql).await.expect("an organisation");
    (user, Resource { resource_type: "project".to_owned(), id: project.into() })
}

async fn record(store: &PostgresStore, claim: Claim, resource: &Resource) -> Claim {
    complete(store, &claim, &Completion { resource: Some(resource.clone()), ..completion("done") }).await;
    again(&claim)
}

/// Under row-level security on the outbox: a user sees the rows of its own organisation, and a call without a user sees none.
#[tokio::test]
async fn each_status_is_read_as_the_rows_own_user() {
    let database = Database::new().await;
    let (owner, api, store) = (database.owner().await, database.api().await, database.store());
    owner.batch_execute(&format!("DROP POLICY {OUTBOX_POLICY} ON authz.outbox")).await.expect("no policy for all");
    let ((alice, hers), (bob, his)) = (user_with_project(&owner).await, user_with_project(&owner).await);
    let nobody = |claim| Claim { session: CallSession::default(), ..claim };
    let unasked = |claim| Claim { resource_type: None, ..claim };
    let completed = Some("completed".to_owned());
    let calls = [
        (record(&store, claim(alice, Uuid::new_v4()), &hers).await, completed.clone()),
        (record(&store, claim(bob, Uuid::new_v4()), &his).await, completed.clone()),
        (record(&store, claim(alice, Uuid::new_v4()), &his).await, None),
        (nobody(record(&store, claim(bob, Uuid::new_v4()), &his).await), None),
        (record(&store, claim(bob, Uuid::new_v4()), &hers).await, None),
        (record(&store, claim(alice, Uuid::new_v4()), &hers).await, completed),
        (unasked(record(&store, claim(alice, Uuid::new_v4()), &hers).await), None),
        (nobody(record(&store, claim(alice, Uuid::new_v4()), &hers).await), None),
    ];
    for places in 0..calls.len() {
        let (claims, expected): (Vec<_>, Vec<_>) = turned(&calls, places).into_iter().unzip();
        let found = statements::look(&api, &claims.iter().collect::<Vec<_>>()).await.expect("a look");
        assert!(found.iter().all(Option::is_some));
        assert_eq!(texts(&found, "status"), expected, "{places}");
    }
}

fn with_settings(claim: Claim, settings: &[(&str, &str)]) -> Claim {
    let all = settings.iter().fold(SessionSettings::new(), |all, (name, value)| all.set(*name, *value));
    Claim { session: CallSession { settings: Some(Arc::new(all)), ..claim.session }, ..claim }
}

/// The application's function returns the settings that it finds.
#[tokio::test]
async fn each_status_is_read_with_the_rows_own_settings_and_none_is_left() {
    let (database, owner) = Database::with_owner().await;
    let sql = "CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text)
             RETURNS text LANGUAGE sql STABLE AS $$
                 SELECT concat_ws(' ', current_setting('app.tenant_id'), current_setting('app.region'),
                                  current_setting('app.current_user_id'), current_setting('search_path'))
             $$";
    owner.batch_execute(sql).await.expect("the function");
    let store = patient(database.pool(1));
    let project = database.project(None).await;
    let mut calls = Vec::new();
    for tenant in ["a", "b", "", "d"] {
        let user = Uuid::new_v4();
        let region = format!("{tenant}-1");
        let settings: &[_] = &[("app.tenant_id", tenant), ("app.region", &region)];
        let claim = record(&store, claim(user, Uuid::new_v4()), &project).await;
        calls.push((with_settings(claim, settings), format!("{tenant} {region} {user} pg_catalog, pg_temp")));
    }
    let api = database.api().await;
    for places in 0..calls.len() {
        let (claims, expected): (Vec<_>, Vec<_>) = turned(&calls, places).into_iter().unzip();
        let found = statements::look(&api, &claims.iter().collect::<Vec<_>>()).await.expect("a look");
        assert_eq!(texts(&found, "status").into_iter().flatten().collect::<Vec<_>>(), expected);
    }
    let names = ["idempotency.owner", "app.current_user_id", "app.tenant_id", "app.region"];
    for name in names {
        let left = api.query_one(&format!("SELECT current_setting('{name}', true)"), &[]).await.expect("a setting");
        assert_eq!(left.get::<_, Option<&str>>(0).unwrap_or_default(), "", "{name}");
    }
}

/// In the same statement. As a trigger finds them that writes them into the row.
#[tokio::test]
async fn each_reservation_and_each_outcome_is_made_with_the_rows_own_user_and_settings() {
    let database = Database::new().await;
    let store = patient(database.pool(1));
    let held = [(); 3].map(|()| new_claim());
    for claim in &held {
        acquire(&store, claim).await;
    }
    let note = "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    NEW.procedure := concat_ws(' ', current_setting('app.current_user_id', true),
                                               nullif(current_setting('app.tenant_id', true), ''));
                    RETURN NEW;
                END $$;
                CREATE TRIGGER note BEFORE INSERT OR UPDATE ON tenant.idempotency_keys
                    FOR EACH ROW EXECUTE FUNCTION public.note()";
    database.owner().await.batch_execute(note).await.expect("the trigger");
    let api = database.api().await;
    let tenants = ["a", "b", "c"];
    let claims = tenants.map(|tenant| with_settings(new_claim(), &[("app.tenant_id", tenant)]));
    let done = held.each_ref().map(|claim| claim.reservation);
    let written = statements::write(&api, &claims.each_ref(), &done, &[Outcome::DONE; 3]).await.expect("a statement");
    assert_eq!(written, (vec![true; 3], vec![true; 3]));
    let noted = async |claims: &[Claim; 3]| {
        texts(&statements::look(&api, &claims.each_ref()).await.expect("a look"), "recorded_procedure")
    };
    let of_claims = tenants.iter().zip(&claims).map(|(it, claim)| Some(format!("{} {it}", owner_of(claim))));
    assert_eq!(noted(&claims).await, of_claims.collect::<Vec<_>>());
    assert_eq!(noted(&held).await, held.each_ref().map(|claim| Some(owner_of(claim).to_string())));
}
