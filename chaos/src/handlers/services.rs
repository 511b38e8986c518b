//! The services.

use std::time::Duration;

use organization::{
    Call, Guard,
    proto::{
        AddInstallRequest, AddInstallResponse, AddProjectMemberRequest, AddProjectMemberResponse, CreateClusterRequest,
        CreateClusterResponse, CreateNodePoolRequest, CreateNodePoolResponse, CreateProjectRequest,
        CreateProjectResponse, DeleteProjectRequest, DeleteProjectResponse, GetClusterRequest, GetClusterResponse,
        GetProjectRequest, GetProjectResponse, InviteMemberRequest, InviteMemberResponse, ListClustersRequest,
        ListClustersResponse, ListInvitationsRequest, ListInvitationsResponse, ListProjectsRequest,
        ListProjectsResponse, RegisterNodeRequest, RegisterNodeResponse,
        cluster_service_server::{ClusterService, ClusterServiceServer},
        invite_service_server::{InviteService, InviteServiceServer},
        project_service_server::{ProjectService, ProjectServiceServer},
    },
    step, wait,
};
use tonic::{Request, Response, Status, service::Routes};
use tonic_idempotency::policy::{Abandoned, Reconciler, Reconciliation};
use uuid::Uuid;

use super::{Database, Row};
use crate::error::Error;

/// The services on a database, and the reconciler of their invitations.
#[derive(Clone, Debug)]
pub(crate) struct Handlers<D> {
    database: D,
    /// The minimum time that a create call waits before it commits.
    commit_delay: Duration,
}

#[expect(private_bounds, reason = "only the drivers beside this make one")]
impl<D: Database> Handlers<D> {
    pub(super) fn new(database: D, commit_delay: Duration) -> Self {
        Self { database, commit_delay }
    }

    /// The services that the clients call, each behind the guard.
    pub(super) fn services(&self, guard: &Guard) -> Routes {
        Routes::default()
            .add_service(guard.around(ClusterServiceServer::new(self.clone())))
            .add_service(guard.around(InviteServiceServer::new(self.clone())))
            .add_service(guard.around(ProjectServiceServer::new(self.clone())))
    }

    async fn create(&self, call: &Call, row: Row<'_>) -> Result<Uuid, Status> {
        step("handler_started");
        let mut writes = self.database.begin(call).await?;
        let id = D::insert(&mut writes, row).await?;
        step("handler_wrote");
        wait(self.commit_delay.max(call.delay)).await;
        if D::is_of_handler(&writes) {
            call.execution.effect_committed();
            D::end(writes).await?;
            step("handler_committed");
        }
        Ok(id)
    }

    async fn send_mail(&self, call: &Call, invitation: Uuid, email: &str) -> Result<(), Status> {
        let mut writes = self.database.begin(call).await?;
        D::send_mail(&mut writes, invitation, email).await?;
        D::end(writes).await
    }
}

impl<D: Database> Reconciler for Handlers<D> {
    async fn reconcile(&self, abandoned: Abandoned) -> Result<Reconciliation, Error> {
        let call = Call::of_abandoned(&abandoned);
        let mut writes = self.database.begin(&call).await?;
        let found = D::invitation(&mut writes, call.caller.user, call.key).await?;
        D::end(writes).await?;
        let Some((invitation, email)) = found else {
            return Ok(Reconciliation::NotExecuted);
        };
        self.send_mail(&call, invitation, &email).await?;
        Ok(Reconciliation::completed(&InviteMemberResponse { invitation_id: invitation.to_string() }))
    }
}

#[tonic::async_trait]
impl<D: Database> ClusterService for Handlers<D> {
    async fn create_cluster(
        &self,
        request: Request<CreateClusterRequest>,
    ) -> Result<Response<CreateClusterResponse>, Status> {
        let call = Call::of(&request)?;
        let CreateClusterRequest { name, region, .. } = request.get_ref();
        let cluster = self.create(&call, Row::Cluster { name, region }).await?;
        Ok(Response::new(CreateClusterResponse { cluster_id: cluster.to_string() }))
    }

    async fn create_node_pool(
        &self,
        _: Request<CreateNodePoolRequest>,
    ) -> Result<Response<CreateNodePoolResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn add_install(&self, _: Request<AddInstallRequest>) -> Result<Response<AddInstallResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn register_node(&self, _: Request<RegisterNodeRequest>) -> Result<Response<RegisterNodeResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn get_cluster(&self, _: Request<GetClusterRequest>) -> Result<Response<GetClusterResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn list_clusters(&self, _: Request<ListClustersRequest>) -> Result<Response<ListClustersResponse>, Status> {
        Err(no_client_calls_it())
    }
}

#[tonic::async_trait]
impl<D: Database> InviteService for Handlers<D> {
    async fn invite_member(
        &self,
        request: Request<InviteMemberRequest>,
    ) -> Result<Response<InviteMemberResponse>, Status> {
        let call = Call::of(&request)?;
        let InviteMemberRequest { email, role } = request.get_ref();
        let invitation = self.create(&call, Row::Invitation { email, role, key: call.key }).await?;
        self.send_mail(&call, invitation, email).await?;
        Ok(Response::new(InviteMemberResponse { invitation_id: invitation.to_string() }))
    }

    async fn list_invitations(
        &self,
        _: Request<ListInvitationsRequest>,
    ) -> Result<Response<ListInvitationsResponse>, Status> {
        Err(no_client_calls_it())
    }
}

#[tonic::async_trait]
impl<D: Database> ProjectService for Handlers<D> {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let call = Call::of(&request)?;
        let CreateProjectRequest { cluster_id, name, .. } = request.get_ref();
        let cluster = cluster_id.parse().map_err(|_| Status::invalid_argument("cluster_id must be a UUID"))?;
        let project = self.create(&call, Row::Project { cluster, name }).await?;
        Ok(Response::new(CreateProjectResponse { project_id: project.to_string() }))
    }

    async fn add_project_member(
        &self,
        _: Request<AddProjectMemberRequest>,
    ) -> Result<Response<AddProjectMemberResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn delete_project(
        &self,
        _: Request<DeleteProjectRequest>,
    ) -> Result<Response<DeleteProjectResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn get_project(&self, _: Request<GetProjectRequest>) -> Result<Response<GetProjectResponse>, Status> {
        Err(no_client_calls_it())
    }

    async fn list_projects(&self, _: Request<ListProjectsRequest>) -> Result<Response<ListProjectsResponse>, Status> {
        Err(no_client_calls_it())
    }
}

fn no_client_calls_it() -> Status {
    Status::unimplemented("the harness has no handler for this procedure")
}
