//! The client of the sample.

use std::sync::{Arc, atomic::Ordering};

use organization::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateProjectRequest, CreateProjectResponse, ListProjectsRequest, Project,
        project_service_client::ProjectServiceClient,
    },
};
use tcp_proxy::Proxy;
use tonic::{
    Request, Response, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Endpoint,
};
use tonic_idempotency_client::{IdempotencyClient, IdempotencyClientLayer, Unresolved, journal::Journal};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::{
    Error,
    attempts::{Attempts, Fate},
    server::Server,
    show::Show,
};

/// The channel of the generated client.
pub(crate) type Service = IdempotencyClient<InterceptedService<Attempts, Token>>;

/// A client of the sample, whose calls go through a proxy.
#[derive(Clone)]
pub(crate) struct Client {
    attempts: Attempts,
    cluster: Uuid,
    /// The label of the projects that it creates.
    pub(crate) label: Uuid,
    projects: ProjectServiceClient<Service>,
    /// The channel with the layer.
    pub(crate) service: Service,
    pub(crate) show: Show,
}

impl Client {
    pub(crate) fn new(server: &Server, journal: Option<&Journal>, label: Uuid, show: &Show) -> Result<Self, Error> {
        let proxy = Arc::new(Proxy::start(server.address)?);
        let channel = Endpoint::new(format!("http://{}", proxy.address()))?.connect_lazy();
        let attempts = Attempts::new(channel, proxy, show.clone());
        // Inside of the layer, so that a call from the journal has credentials, too: the journal stores none.
        let channel = InterceptedService::new(attempts.clone(), Token(format!("Bearer {}", server.token).parse()?));

        // This is all that a client needs: a layer around its channel.
        let mut layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET);
        if let Some(journal) = journal {
            layer = layer.journal(journal.clone());
        }
        let service = layer.build()?.layer(channel);
        let projects = ProjectServiceClient::new(service.clone());

        Ok(Self { attempts, cluster: server.cluster, label, projects, service, show: show.clone() })
    }

    /// Creates a project. This many answers to it are lost.
    pub(crate) async fn create(&self, number: u32, lose: u32) -> Result<Response<CreateProjectResponse>, Error> {
        self.show.line(&format!("project {number}:"));
        self.show.now("waiting for an answer");
        self.attempts.losses.store(lose, Ordering::SeqCst);
        self.projects.clone().create_project(self.project(number)).await.map_err(failed)
    }

    /// Creates a project, whose call has this fate.
    pub(crate) async fn create_with(self, number: u32, fate: Fate) -> Result<Response<CreateProjectResponse>, Error> {
        let mut request = Request::new(self.project(number));
        request.extensions_mut().insert(fate);
        self.projects.clone().create_project(request).await.map_err(failed)
    }

    /// The newest projects of the organization, at most 1000.
    pub(crate) async fn list(&self) -> Result<Vec<Project>, Error> {
        Ok(self.projects.clone().list_projects(ListProjectsRequest::default()).await?.into_inner().projects)
    }

    /// The number of projects that have the label of this client's.
    pub(crate) async fn count(&self) -> Result<usize, Error> {
        let label = self.label.to_string();
        Ok(self.list().await?.iter().filter(|project| project.labels.get("run") == Some(&label)).count())
    }

    fn project(&self, number: u32) -> CreateProjectRequest {
        CreateProjectRequest {
            cluster_id: self.cluster.to_string(),
            name: format!("project {number}"),
            labels: [("run".to_owned(), self.label.to_string())].into(),
            ..CreateProjectRequest::default()
        }
    }
}

/// Adds the token of the user to each attempt.
#[derive(Clone)]
pub(crate) struct Token(MetadataValue<Ascii>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

fn failed(status: Status) -> Error {
    match Unresolved::of(&status) {
        Some(Unresolved { key, .. }) => {
            format!("{status}\nThe call stays in the journal, with the key {key}: start the client again to send it.")
                .into()
        }
        None => status.into(),
    }
}
