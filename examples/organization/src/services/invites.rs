use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status};

use crate::{
    auth::Caller,
    database::{Database, Insert},
    fields,
    proto::{
        Invitation, InviteMemberRequest, InviteMemberResponse, ListInvitationsRequest, ListInvitationsResponse,
        invite_service_server::InviteService,
    },
    services::{column, created, id},
};

const INSERT_INVITATION: Insert = Insert {
    resource: "organization_user",
    sql: "INSERT INTO tenant.organization_users (email, role) VALUES ($1, $2) RETURNING id",
};

const SELECT_INVITATIONS: &str =
    "SELECT id, email, role, status, created FROM tenant.organization_users ORDER BY id DESC LIMIT 1000";

/// The `InviteService`.
#[derive(Debug)]
pub(crate) struct Invites {
    database: Database,
}

impl Invites {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[tonic::async_trait]
impl InviteService for Invites {
    async fn invite_member(
        &self,
        request: Request<InviteMemberRequest>,
    ) -> Result<Response<InviteMemberResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let email = fields::email("email", &request.email)?;
        let role = fields::role("role", &request.role)?;
        let invitation =
            self.database.create(caller, &INSERT_INVITATION, &[(&email, Type::TEXT), (&role, Type::TEXT)]).await?;
        Ok(Response::new(InviteMemberResponse { invitation_id: invitation.to_string() }))
    }

    async fn list_invitations(
        &self,
        request: Request<ListInvitationsRequest>,
    ) -> Result<Response<ListInvitationsResponse>, Status> {
        let rows = self.database.select(Caller::of(&request)?, SELECT_INVITATIONS, &[]).await?;
        Ok(Response::new(ListInvitationsResponse {
            invitations: rows.iter().map(to_invitation).collect::<Result<_, _>>()?,
        }))
    }
}

fn to_invitation(row: &Row) -> Result<Invitation, Status> {
    Ok(Invitation {
        id: id(row, "id")?,
        email: column(row, "email")?,
        role: column(row, "role")?,
        status: column(row, "status")?,
        created: created(row)?,
    })
}
