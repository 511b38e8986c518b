//! Keys of other forms and in other places than a UUID in the header, and procedures that are idempotent by an id.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    call::{Call, Reply},
    subject::Sample,
};

/// The procedures that are tested here, and not in `procedures`.
pub(crate) const COVERED: [&str; 2] = ["ClusterService/RegisterNode", "ProjectService/DeleteProject"];

const INVALID_ARGUMENT: u64 = 3;
const ALREADY_EXISTS: u64 = 6;

/// The modes of `--mode`. In both, the handler has to find the calls that the layer has forgotten.
const MODES: [&str; 2] = ["transactional", "reserved"];

/// Removes all records, as the sweep does when they have expired.
async fn forget(sample: &Sample) {
    sample.client.batch_execute("DELETE FROM tenant.idempotency_keys").await.expect("no record is left");
}

fn install(sample: &Sample, version: &str) -> Call {
    let request = json!({ "clusterId": sample.ready.cluster_id, "name": "ingress", "version": version });
    Call::new("ClusterService/AddInstall", request)
}

#[tokio::test]
async fn a_key_may_be_a_text() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let first = sample.as_alice(install(&sample, "1").key("order-17")).await.succeeded();
    assert_eq!((first.status(), first.replayed()), (Some("processing"), None));
    for form in ["order-17", "\"order-17\""] {
        let replay = sample.as_alice(install(&sample, "1").key(form)).await.succeeded();
        assert_eq!((&replay.body, replay.replayed()), (&first.body, Some("true")), "{form}");
    }
    let reused = sample.as_alice(install(&sample, "2").key("order-17")).await;
    assert_eq!(reused.reason(), "IDEMPOTENCY_KEY_REUSED");
    let refused = sample.as_alice(install(&sample, "1").key("order 17")).await;
    assert_eq!((refused.code, refused.reason()), (INVALID_ARGUMENT, "IDEMPOTENCY_KEY_INVALID"));
    assert_eq!(sample.count("tenant.installs").await, 1);

    sample.as_bob(install(&sample, "1").key("order-17")).await.succeeded();
    assert_eq!(sample.count("tenant.installs").await, 2, "the key of another user");
}

#[tokio::test]
async fn a_key_may_be_in_the_request_id() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let before = sample.count("tenant.clusters").await;
    let create = |id: &dyn ToString| {
        let request = json!({ "name": "second", "region": "nl-1", "requestId": id.to_string() });
        Call::new("ClusterService/CreateCluster", request)
    };
    let (key, other) = (Uuid::new_v4(), Uuid::new_v4());
    let first = sample.as_alice(create(&key)).await.succeeded();
    assert_eq!((first.status(), first.replayed()), (Some("processing"), None));
    for call in [create(&key), create(&key).key(key)] {
        let replay = sample.as_alice(call).await.succeeded();
        assert_eq!((&replay.body, replay.replayed()), (&first.body, Some("true")));
    }
    assert_eq!(sample.completed(key).await, Some(true));

    let refused = sample.as_alice(create(&key).key(other)).await;
    assert_eq!((refused.code, refused.reason()), (INVALID_ARGUMENT, "IDEMPOTENCY_KEY_INVALID"));
    assert_eq!(refused.detail("ErrorInfo")["metadata"]["mismatch"], "key_field");
    assert_eq!(refused.detail("BadRequest")["fieldViolations"][0]["field"], "request_id");
    let refused = sample.as_alice(create(&"order-17")).await;
    assert_eq!(refused.reason(), "IDEMPOTENCY_KEY_INVALID");
    assert_eq!(sample.count("tenant.clusters").await, before + 1);

    // An empty field is no key.
    assert_eq!(sample.as_alice(create(&"")).await.succeeded().status(), None);
    assert_eq!(sample.count("tenant.clusters").await, before + 2);
}

fn register(cluster: Uuid, id: &str, machine_type: &str) -> Call {
    let node = json!({ "id": id, "machineType": machine_type });
    Call::new("ClusterService/RegisterNode", json!({ "clusterId": cluster, "node": node }))
}

async fn assert_replayed(sample: &Sample, call: &Call, first: &Reply) {
    let replay = sample.as_alice(call.clone()).await.succeeded();
    assert_eq!((&replay.body, replay.status(), replay.replayed()), (&first.body, Some("completed"), Some("true")));
}

#[tokio::test]
async fn a_node_registers_itself_once_whether_or_not_its_record_lives() {
    for mode in MODES {
        let Some(sample) = Sample::start(&["--mode", mode]).await else { return };
        let call = register(sample.ready.cluster_id, "rack4-17", "m1");
        let first = sample.as_alice(call.clone()).await.succeeded();
        assert_eq!((first.status(), first.replayed()), (Some("completed"), None));
        assert_eq!(first.body["node"]["id"], "rack4-17");

        assert_replayed(&sample, &call, &first).await;
        forget(&sample).await;
        let sample = sample.restart(&["--mode", mode]).await; // its replay cache is empty
        assert_replayed(&sample, &call, &first).await; // from the table of nodes
        assert_replayed(&sample, &call, &first).await; // from the second record
        // The guard does not depend on the user: Bob has no record of this call.
        let bob = sample.as_bob(call.clone()).await.succeeded();
        assert_eq!((&bob.body, bob.replayed()), (&first.body, Some("true")), "{mode}");
        assert_eq!(sample.count("tenant.nodes").await, 1, "{mode}");
    }
}

#[tokio::test]
async fn a_node_does_not_take_anothers_id() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let cluster = sample.ready.cluster_id;
    sample.as_alice(register(cluster, "rack4-17", "m1")).await.succeeded();
    let other = register(cluster, "rack4-17", "m2");
    assert_eq!(sample.as_alice(other.clone()).await.reason(), "IDEMPOTENCY_KEY_REUSED");
    forget(&sample).await;
    assert_eq!(sample.as_alice(other).await.code, ALREADY_EXISTS);

    let without_id = sample.as_alice(register(cluster, "", "m1")).await;
    assert_eq!((without_id.code, without_id.reason()), (INVALID_ARGUMENT, "IDEMPOTENCY_KEY_REQUIRED"));
    assert_eq!(without_id.detail("BadRequest")["fieldViolations"][0]["field"], "node.id");
    assert_eq!(sample.count("tenant.nodes").await, 1);
}

#[tokio::test]
async fn a_project_is_deleted_once_whether_or_not_its_record_lives() {
    for mode in MODES {
        let Some(sample) = Sample::start(&["--mode", mode]).await else { return };
        let created = sample.as_alice(sample.create_project("shop").key(Uuid::new_v4())).await.succeeded();
        let project = created.field("projectId");
        let namespace = json!({ "projectId": project, "name": "web" });
        sample.as_alice(Call::new("NamespaceService/CreateNamespace", namespace)).await.succeeded();

        let delete = Call::new("ProjectService/DeleteProject", json!({ "projectId": project }));
        let call = delete.clone().key(Uuid::new_v4());
        let first = sample.as_alice(call.clone()).await.succeeded();
        assert_eq!((&first.body, first.status(), first.replayed()), (&json!({}), Some("completed"), None), "{mode}");
        assert_eq!(sample.as_alice(call.clone()).await.succeeded().replayed(), Some("true"), "{mode}");
        assert_eq!((sample.count("tenant.projects").await, sample.count("tenant.namespaces").await), (0, 0), "{mode}");

        forget(&sample).await;
        let sample = sample.restart(&["--mode", mode]).await; // its replay cache is empty
        let after = sample.as_alice(call).await.succeeded();
        assert_eq!((&after.body, after.replayed()), (&json!({}), None), "{mode}");
        // With another key, and without one.
        sample.as_alice(delete.clone().key(Uuid::new_v4())).await.succeeded();
        assert_eq!(sample.as_alice(delete).await.succeeded().body, Value::Object(Default::default()), "{mode}");
    }
}
