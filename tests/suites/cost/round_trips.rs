//! Round trips to PostgreSQL of whole calls through the layer, around the sample's handler. In reserved mode the
//! handler's own statements use other connections and are not counted.

use std::time::Duration;

use deadpool_postgres::Pool;
use organization::{
    Caller, FILE_DESCRIPTOR_SET, Projects,
    proto::{CreateProjectRequest, project_service_server::ProjectServiceServer},
};
use prost_reflect::DescriptorPool;
use tonic::Status;
use tonic_idempotency::{
    KeyId, OwnerId,
    layer::IdempotencyLayerBuilder,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy, Mode, Procedure, Reconciliation},
    rejection::Reason,
    store::{
        BeginOutcome, CallSession, Claim, ClaimOutcome, PostgresStore, Reservation, SessionSettings, Store as _,
        TransactionOptions,
    },
};
use tonic_idempotency_tests::{Database, Proxy, until};

use crate::harness::framed;
use crate::prelude::*;

const CREATE_PROJECT: &str = "/organization.v1.ProjectService/CreateProject";

const INVITE: &str = "/organization.v1.InviteService/InviteMember";

/// The sample's projects, with their store behind a proxy.
struct Service {
    database: Database,
    proxy: Proxy,
    pool: Pool,
    user: Uuid,
    project: CreateProjectRequest,
    key: Uuid,
}

impl Service {
    async fn new() -> Self {
        let database = Database::new().await;
        let (proxy, pool) = database.pool_through_proxy(1).await;
        drop(pool.get().await.expect("a connection"));
        let cluster = database.owner().await.query_one("SELECT id FROM tenant.clusters", &[]).await.expect("a cluster");
        let cluster_id = cluster.get::<_, Uuid>(0).to_string();
        let project = CreateProjectRequest { cluster_id, name: "shop".to_owned(), ..Default::default() };
        let user = database.user().await.id;
        Self { database, proxy, pool, user, project, key: Uuid::new_v4() }
    }

    /// Makes calls of each kind, after which the connection has all statements prepared.
    async fn prepare(&mut self, server: &mut impl Server) {
        let (key, cluster) = (Some(Uuid::new_v4()), self.project.cluster_id.clone());
        self.call(server, key).await;
        self.call(server, None).await;
        self.project.cluster_id = "none".to_owned();
        self.call(server, Some(Uuid::new_v4())).await;
        self.project.cluster_id = cluster;
    }

    fn server(&self, mode: Mode) -> impl Server + use<> {
        self.server_with(mode, |builder| builder)
    }

    fn server_with(
        &self,
        mode: Mode,
        build: fn(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> impl Server + use<> {
        let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
            .store(store(self.pool.clone()))
            .procedure(Procedure::builder(CREATE_PROJECT).creates("project", "project_id").mode(mode))
            .reconciler(INVITE, |_| async { Ok(Reconciliation::Unknown) });
        let layer = build(layer).build();
        let projects = Projects::new(organization::Database::new(self.database.pool(2), Duration::ZERO));
        layer.expect("the layer can be built").layer(ProjectServiceServer::new(projects))
    }

    /// Makes one call. Returns its response and its round trips, including those after the answer.
    async fn call(&self, server: &mut impl Server, key: Option<Uuid>) -> (Response<()>, usize) {
        let before = self.proxy.round_trips();
        let body = http_body_util::Full::new(framed(&self.project.encode_to_vec()));
        let mut request = Request::post(CREATE_PROJECT).header("content-type", "application/grpc");
        if let Some(key) = key {
            request = request.header("idempotency-key", key.to_string());
        }
        let mut request = request.body(Body::new(body)).expect("a request");
        request.extensions_mut().insert(UserId::new(self.user));
        request.extensions_mut().insert(Caller { user: self.user });
        let response = call(server, request).await;
        until("the connection is back", async || self.pool.status().available == 1).await;
        (response, self.proxy.round_trips() - before)
    }

    /// The claim of another process that runs the same call.
    fn claim(&self) -> Claim {
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
        let message = pool.get_message_by_name("organization.v1.CreateProjectRequest").expect("the message");
        Claim {
            reservation: Reservation::new(OwnerId::new(self.user), KeyId::new(self.key)),
            session: CallSession::default(),
            procedure: CREATE_PROJECT.to_owned(),
            request: Canonical::new(&message).hashes(&self.project.encode_to_vec()).expect("a message"),
            lease: Duration::from_secs(60),
            retention: Duration::from_secs(60),
            effect: EffectPolicy::Anywhere,
            on_lease_ended: LeasePolicy::Refuse,
            on_foreign_reservation: ForeignPolicy::InProgress,
            resource_type: Some("project".to_owned()),
        }
    }
}

fn store(pool: Pool) -> PostgresStore {
    PostgresStore::new(pool, organization::resource_types()).timeout(Duration::from_secs(60))
}

fn assert_succeeded(response: &Response<()>, status: Option<&str>, replayed: bool) {
    let header = |name| response.headers().get(name).map(|value| value.to_str().expect("text"));
    assert_eq!((header("idempotency-status"), header("idempotent-replayed")), (status, replayed.then_some("true")));
    assert!(!response.headers().contains_key("grpc-status"), "{response:?}");
}

fn reason(response: &Response<()>) -> Option<Reason> {
    Reason::of(&Status::from_header_map(response.headers()).expect("a refusal"))
}

#[tokio::test]
async fn of_a_reserved_call_are_claim_and_complete_and_of_its_duplicates_the_claim() {
    let mut service = Service::new().await;
    let (mut server, key) = (service.server(Mode::Reserved), Some(service.key));
    service.prepare(&mut server).await;
    let (first, trips) = service.call(&mut server, key).await;
    assert_succeeded(&first, Some("processing"), false);
    assert_eq!(trips, 2, "claim, complete");
    let (replay, trips) = service.call(&mut server, key).await;
    assert_succeeded(&replay, Some("processing"), true);
    assert_eq!(trips, 1, "claim");
    let (without_key, trips) = service.call(&mut server, None).await;
    assert_succeeded(&without_key, None, false);
    assert_eq!(trips, 0);

    service.project.name = "another".to_owned();
    let (other, trips) = service.call(&mut server, key).await;
    assert_eq!((reason(&other), trips), (Some(Reason::KeyReused), 1));
    let (_, trips) = service.call(&mut server, key).await;
    assert_eq!(trips, 2, "the look comes first after two records, and is prepared");

    service.key = Uuid::new_v4();
    let claimed = store(service.database.pool(1)).claim(&service.claim()).await;
    assert!(matches!(claimed, Ok(ClaimOutcome::Acquired)), "{claimed:?}");
    let (duplicate, trips) = service.call(&mut server, Some(service.key)).await;
    assert_eq!((reason(&duplicate), trips), (Some(Reason::InProgress), 1));
}

#[tokio::test]
async fn of_a_reserved_call_that_fails_are_claim_and_release() {
    let mut service = Service::new().await;
    let mut server = service.server(Mode::Reserved);
    service.prepare(&mut server).await;
    service.project.cluster_id = "none".to_owned();
    let (failed, trips) = service.call(&mut server, Some(service.key)).await;
    assert!(failed.headers().contains_key("grpc-status"));
    assert_eq!(trips, 2, "claim, release");
}

/// The round trips of a replay and of a call without a key are tested in `transaction`: `connections`.
#[tokio::test]
async fn of_a_transactional_call_are_claim_and_commit_beside_its_statements() {
    let mut service = Service::new().await;
    let mut server = service.server(Mode::Transactional);
    service.prepare(&mut server).await;
    let other = store(service.database.pool(1));
    let held = other.begin(&service.claim(), TransactionOptions::default()).await;
    assert!(matches!(held, Ok(BeginOutcome::Open { .. })), "{held:?}");
    let (duplicate, trips) = service.call(&mut server, Some(service.key)).await;
    assert_eq!(reason(&duplicate), Some(Reason::InProgress));
    assert!(
        trips <= 4,
        "a key that is not free; the function, which is prepared; and at most a ROLLBACK after the answer: {trips}"
    );

    service.key = Uuid::new_v4();
    let (first, trips) = service.call(&mut server, Some(service.key)).await;
    assert_succeeded(&first, Some("processing"), false);
    assert_eq!(trips, 3, "claim, insert, commit");

    service.project.cluster_id = "none".to_owned();
    let (failed, trips) = service.call(&mut server, Some(Uuid::new_v4())).await;
    assert!(failed.headers().contains_key("grpc-status"));
    assert_eq!(trips, 2, "claim, ROLLBACK");
}

#[tokio::test]
async fn are_no_more_with_settings_of_the_application() {
    let mut service = Service::new().await;
    for (mode, first, without_key) in [(Mode::Reserved, 2, 0), (Mode::Transactional, 3, 3)] {
        let mut server = service.server_with(mode, |builder| {
            builder.session_settings(|_| SessionSettings::new().set("app.tenant_id", "acme").set("app.region", "here"))
        });
        service.prepare(&mut server).await;
        let key = Some(Uuid::new_v4());
        let (seen, trips) = service.call(&mut server, key).await;
        assert_succeeded(&seen, Some("processing"), false);
        assert_eq!(trips, first, "{mode:?}");
        let (replay, trips) = service.call(&mut server, key).await;
        assert_succeeded(&replay, Some("processing"), true);
        assert!(trips <= if mode == Mode::Reserved { 1 } else { 4 }, "{mode:?}: {trips}");
        let (seen, trips) = service.call(&mut server, None).await;
        assert_succeeded(&seen, None, false);
        assert_eq!(trips, without_key, "{mode:?}");
    }
}

/// A new connection costs one round trip more to find out that it is the server's own, and one for each statement that is prepared. The first
/// call of a store asks for the server's clock: another statement.
#[tokio::test]
async fn of_a_new_connection_are_one_for_its_look_and_one_for_each_prepared_statement() {
    for (mode, first, next) in [(Mode::Reserved, 7, 2), (Mode::Transactional, 9, 3)] {
        let service = Service::new().await;
        let mut server = service.server(mode);
        let (_, trips) = service.call(&mut server, Some(Uuid::new_v4())).await;
        assert_eq!(
            trips, first,
            "{mode:?}: the look; and for each statement, the clock's too, once to prepare it and once to execute it"
        );
        let (_, trips) = service.call(&mut server, Some(Uuid::new_v4())).await;
        assert_eq!(trips, next, "{mode:?}");
    }
}
