//! The client.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use organization::{
    FILE_DESCRIPTOR_SET,
    proto::{CreateProjectRequest, ListProjectsRequest, project_service_client::ProjectServiceClient},
};
use tcp_proxy::Proxy;
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, transport::Endpoint};
use tonic_idempotency_client::{
    Completion, Delivery, IdempotencyClient, IdempotencyClientLayer, ProgressEvent, completed,
};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::{
    Args, Error,
    attempts::Attempts,
    server::{Server, be_the_sample},
    show::Show,
};

type Projects = ProjectServiceClient<IdempotencyClient<Attempts>>;

/// Creates projects, and shows each attempt and what becomes of the work behind them.
///
/// # Errors
///
/// There is no server; or a project was not created, or more than once.
pub async fn run(args: Args) -> Result<(), Error> {
    if let Some(ready_file) = &args.be_the_sample {
        return be_the_sample(ready_file, args.work).await;
    }
    let show = Show::new(2 * u64::from(args.calls))?;
    let ran = Client::new(&args, &show).await?.run().await;
    show.end();
    show.line(&ran?);
    Ok(())
}

struct Client<'a> {
    args: &'a Args,
    attempts: Attempts,
    projects: Projects,
    server: Server,
    show: &'a Show,
    /// The label of the projects of this run.
    label: String,
}

impl<'a> Client<'a> {
    async fn new(args: &'a Args, show: &'a Show) -> Result<Self, Error> {
        let server = Server::of(args, show).await?;
        let proxy = Arc::new(Proxy::start(server.address)?);
        let channel = Endpoint::new(format!("http://{}", proxy.address()))?.connect_lazy();
        let attempts = Attempts::new(channel, proxy, show.clone());

        // This is all that a client needs: a layer around its channel.
        let layer =
            IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).attempt_timeout(Duration::from_secs(5)).build()?;
        let projects = ProjectServiceClient::new(layer.layer(attempts.clone()));

        Ok(Self { args, attempts, projects, server, show, label: Uuid::new_v4().to_string() })
    }

    async fn run(mut self) -> Result<String, Error> {
        let (mut attempts, mut replayed) = (0, 0);
        for number in 1..=self.args.calls {
            let response = self.create(number).await?;
            let delivery = Delivery::of(response.extensions());
            attempts += delivery.attempts;
            replayed += u32::from(delivery.replayed);
            self.show.step();
            let work = completed(&response);
            let id = response.into_inner().project_id;
            self.show.line(&format!("project {number} has the id {id}; attempts: {}", delivery.attempts));
            self.watch(number, work).await?;
        }
        let rows = self.count().await?;
        if rows != self.args.calls as usize {
            return Err(format!("{} calls created {rows} projects", self.args.calls).into());
        }
        Ok(format!("calls: {}; attempts: {attempts}; replayed: {replayed}; projects: {rows}", self.args.calls))
    }

    async fn create(&mut self, number: u32) -> Result<Response<organization::proto::CreateProjectResponse>, Error> {
        self.show.line(&format!("project {number}:"));
        self.show.now("waiting for an answer");
        self.attempts.losses.store(self.args.lose, Ordering::SeqCst);
        let request = self.request(CreateProjectRequest {
            cluster_id: self.server.cluster.to_string(),
            name: format!("project {number}"),
            labels: [("run".to_owned(), self.label.clone())].into(),
            ..CreateProjectRequest::default()
        })?;
        Ok(self.projects.create_project(request).await?)
    }

    /// Shows what becomes of the work behind a project, until it has ended.
    async fn watch(&self, number: u32, work: Completion) -> Result<(), Error> {
        let mut progress = work.timeout(Duration::from_secs(600)).progress();
        while let Some(step) = progress.next().await {
            match step.event {
                ProgressEvent::Asking { waiting: true } => self.show.now("the server waits for the work"),
                ProgressEvent::Asking { .. } => self.show.now(&format!("look {}", step.looks)),
                ProgressEvent::Processing { next } => {
                    self.show.now(&format!("processing; next look in {:.1} s", next.as_secs_f32()));
                }
                ProgressEvent::Unanswered { next, .. } => {
                    self.show.now(&format!("no answer; next look in {:.1} s", next.as_secs_f32()));
                }
                ProgressEvent::Ended(result) => {
                    result?;
                    self.show.step();
                    let elapsed = step.elapsed.as_secs_f32();
                    self.show.line(&format!("the work behind project {number} is completed, after {elapsed:.1} s"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The number of projects that this run created.
    async fn count(&mut self) -> Result<usize, Error> {
        let list = self.request(ListProjectsRequest::default())?;
        let projects = self.projects.list_projects(list).await?.into_inner().projects;
        Ok(projects.iter().filter(|project| project.labels.get("run") == Some(&self.label)).count())
    }

    fn request<T>(&self, message: T) -> Result<Request<T>, Error> {
        let mut request = Request::new(message);
        request.metadata_mut().insert("authorization", format!("Bearer {}", self.server.token).parse()?);
        Ok(request)
    }
}
