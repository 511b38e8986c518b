//! A server that takes calls.

use std::time::Duration;

use organization::proto::{
    CreateClusterRequest, CreateProjectRequest, InviteMemberRequest, cluster_service_client::ClusterServiceClient,
    invite_service_client::InviteServiceClient, project_service_client::ProjectServiceClient,
};
use tokio::time;
use tonic::{
    Request, Response, Status,
    metadata::{Ascii, MetadataMap, MetadataValue},
    transport::{Channel, Endpoint},
};
use uuid::Uuid;

use crate::{
    error::Error,
    journal::{Journal, Purpose, ServerId},
    operation::{Kind, Operation, User, Variant},
    outcome::{Acknowledgement, Outcome},
    server::Announcement,
};

/// The time that a connection may take.
const CONNECT: Duration = Duration::from_secs(1);

/// A server that takes calls.
#[derive(Debug)]
pub(crate) struct Backend {
    alice: MetadataValue<Ascii>,
    bob: MetadataValue<Ascii>,
    channel: Channel,
    cluster: Uuid,
    server: ServerId,
}

impl Backend {
    pub(crate) fn new(server: ServerId, ready: &Announcement) -> Result<Self, Error> {
        let bearer = |token: &str| format!("Bearer {token}").parse();
        let endpoint = Endpoint::from_shared(format!("http://{}", ready.address))?.connect_timeout(CONNECT);
        Ok(Self {
            alice: bearer(&ready.tokens.alice)?,
            bob: bearer(&ready.tokens.bob)?,
            channel: endpoint.connect_lazy(),
            cluster: ready.cluster_id,
            server,
        })
    }

    /// The server's id.
    pub(crate) fn server(&self) -> ServerId {
        self.server
    }

    /// Sends the request of an operation, or another request with the operation's key.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is the client hanging up.
    pub(crate) async fn call(&self, operation: &Operation, variant: Variant, patience: Duration) -> Outcome {
        match time::timeout(patience, self.ask(operation, variant)).await {
            Ok(Ok(acknowledgement)) => Outcome::Acknowledged(acknowledgement),
            Ok(Err(status)) => Outcome::Failed(status.into()),
            Err(_) => Outcome::TimedOut,
        }
    }

    /// Does the same, and notes it in the journal.
    pub(crate) async fn attempt(
        &self,
        journal: &Journal,
        operation: &Operation,
        (variant, purpose): (Variant, Purpose),
        patience: Duration,
    ) -> Outcome {
        let attempt = journal.begin(operation.number, variant, purpose, self.server);
        let outcome = self.call(operation, variant, patience).await;
        journal.end(attempt, outcome.clone());
        outcome
    }

    async fn ask(&self, operation: &Operation, variant: Variant) -> Result<Acknowledgement, Status> {
        let (name, channel) = (operation.name(variant), self.channel.clone());
        match operation.kind {
            Kind::Cluster => {
                let request = CreateClusterRequest { name, region: "nl-1".to_owned(), ..Default::default() };
                let call = ClusterServiceClient::new(channel).create_cluster(self.request(operation, request)).await;
                call.map(|response| acknowledgement(&response, &response.get_ref().cluster_id))
            }
            Kind::Invitation => {
                let request = InviteMemberRequest { email: name, role: "viewer".to_owned() };
                let call = InviteServiceClient::new(channel).invite_member(self.request(operation, request)).await;
                call.map(|response| acknowledgement(&response, &response.get_ref().invitation_id))
            }
            Kind::Project => {
                let labels = [("tier", "gold"), ("team", "a"), ("stage", "test")];
                let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                let request = CreateProjectRequest { cluster_id: self.cluster.to_string(), name, alias: None, labels };
                let call = ProjectServiceClient::new(channel).create_project(self.request(operation, request)).await;
                call.map(|response| acknowledgement(&response, &response.get_ref().project_id))
            }
        }
    }

    fn request<T>(&self, operation: &Operation, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let token = match operation.user {
            User::Alice => &self.alice,
            User::Bob => &self.bob,
        };
        request.metadata_mut().insert("authorization", token.clone());
        if let Ok(key) = operation.key.to_string().parse() {
            request.metadata_mut().insert("idempotency-key", key);
        }
        request
    }
}

fn acknowledgement<T>(response: &Response<T>, id: &str) -> Acknowledgement {
    let says = |metadata: &MetadataMap, name, value| metadata.get(name).is_some_and(|said| said == value);
    let metadata = response.metadata();
    Acknowledgement {
        id: id.parse().ok(),
        replayed: says(metadata, "idempotent-replayed", "true"),
        protected: metadata.contains_key("idempotency-status"),
    }
}
