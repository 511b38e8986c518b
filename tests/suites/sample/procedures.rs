//! The procedures of the sample that take a key: the eight that create a resource whose status is tracked. `by_id` has the others.

use std::collections::BTreeSet;

use organization::{BOB, FILE_DESCRIPTOR_SET};
use serde_json::{Value, json};
use tonic_idempotency::IdempotencyLayer;
use uuid::Uuid;

use super::{by_id, call::Call, subject::Sample};

/// The procedures: each with its request, the field of the response that has the id, and the table.
fn covered(cluster: Uuid, project: &str) -> [(&'static str, Value, &'static str, &'static str); 8] {
    [
        (
            "ProjectService/CreateProject",
            json!({ "clusterId": cluster, "name": "shop", "alias": "s" }),
            "projectId",
            "tenant.projects",
        ),
        (
            "ProjectService/AddProjectMember",
            json!({ "projectId": project, "userId": BOB, "role": "viewer" }),
            "memberId",
            "tenant.project_members",
        ),
        ("ClusterService/CreateCluster", json!({ "name": "second", "region": "nl-1" }), "clusterId", "tenant.clusters"),
        (
            "ClusterService/CreateNodePool",
            json!({ "clusterId": cluster, "name": "workers", "machineType": "m1", "nodes": 3 }),
            "nodePoolId",
            "tenant.node_pools",
        ),
        (
            "ClusterService/AddInstall",
            json!({ "clusterId": cluster, "name": "ingress", "version": "1.2.3" }),
            "installId",
            "tenant.installs",
        ),
        (
            "NamespaceService/CreateNamespace",
            json!({ "projectId": project, "name": "web" }),
            "namespaceId",
            "tenant.namespaces",
        ),
        ("APIKeyService/CreateAPIKey", json!({ "name": "ci" }), "id", "tenant.api_keys"),
        (
            "InviteService/InviteMember",
            json!({ "email": "carol@example.com", "role": "admin" }),
            "invitationId",
            "tenant.organization_users",
        ),
    ]
}

#[test]
fn are_all_covered() {
    let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).build().expect("a layer");
    let opted_in: BTreeSet<_> = layer.procedures().map(|procedure| procedure.path().to_owned()).collect();
    let covered = covered(Uuid::nil(), "").map(|(procedure, ..)| procedure);
    let covered = covered.iter().chain(&by_id::COVERED).map(|procedure| format!("/organization.v1.{procedure}"));
    assert_eq!(opted_in, covered.collect());
}

#[tokio::test]
async fn each_of_the_eight_creates_once_and_replays() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let project = sample.as_alice(sample.create_project("parent")).await.succeeded();

    for (procedure, request, id, table) in covered(sample.ready.cluster_id, project.field("projectId")) {
        let key = Uuid::new_v4();
        let call = Call::new(procedure, request).key(key);
        let before = sample.count(table).await;

        let first = sample.as_alice(call.clone()).await.succeeded();
        assert_eq!(first.status(), Some("processing"), "{procedure}");
        assert_eq!(first.replayed(), None, "{procedure}");

        let replay = sample.as_alice(call).await.succeeded();
        // A secret is in the first response only.
        let mut kept = first.body.clone();
        kept.as_object_mut().expect("a message").remove("token");
        assert_eq!(replay.body, kept, "{procedure}");
        assert_eq!(replay.status(), Some("processing"), "{procedure}");
        assert_eq!(replay.replayed(), Some("true"), "{procedure}");

        assert_eq!(sample.count(table).await, before + 1, "{procedure}");
        let recorded =
            "SELECT tenant.idempotency_resource_id(k) FROM tenant.idempotency_keys k WHERE idempotency_key = $1";
        let recorded: String = sample.client.query_one(recorded, &[&key]).await.expect("a record").get(0);
        assert_eq!(recorded, first.field(id), "{procedure}");
    }
}
