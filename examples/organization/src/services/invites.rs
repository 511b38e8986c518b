//! Invitations, which are sent by mail.

use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status};
use tonic_idempotency::policy::{Abandoned, Reconciler, Reconciliation};
use uuid::Uuid;

use crate::{
    auth::Caller,
    call::Call,
    database::{Database, Insert},
    fields,
    proto::{
        Invitation, InviteMemberRequest, InviteMemberResponse, ListInvitationsRequest, ListInvitationsResponse,
        invite_service_server::InviteService,
    },
    services::{column, created, id},
    statement::Parameters,
};

const INSERT_INVITATION: Insert = Insert {
    resource: "organization_user",
    sql: "INSERT INTO tenant.organization_users (email, role, idempotency_key) VALUES ($1, $2, $3) RETURNING id",
};

/// Sends a mail. The table stands for a mail provider that accepts one mail for each invitation.
const SEND_MAIL: &str = "INSERT INTO tenant.mails (invitation_id, recipient) VALUES ($1, $2) ON CONFLICT (organization_id, invitation_id) DO NOTHING";

const SELECT_INVITATION_OF_KEY: &str = "SELECT id, email FROM tenant.organization_users \
     WHERE invited_by = $1 AND idempotency_key = $2 ORDER BY id LIMIT 1";

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

/// Determines the outcome of an `InviteMember` call whose process died: whether its invitation exists.
#[derive(Debug)]
pub struct InvitesReconciler {
    database: Database,
}

impl InvitesReconciler {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}

impl Reconciler for InvitesReconciler {
    async fn reconcile(
        &self,
        abandoned: Abandoned,
    ) -> Result<Reconciliation, Box<dyn std::error::Error + Send + Sync>> {
        let call = Call::of_abandoned(&abandoned);
        let parameters: Parameters<'_> = &[(&call.caller.user, Type::UUID), (&call.key, Type::UUID)];
        let found = self.database.select(call.caller, SELECT_INVITATION_OF_KEY, parameters).await?;
        let Some(invitation) = found.first() else {
            return Ok(Reconciliation::NotExecuted);
        };
        let (id, email): (Uuid, String) = (invitation.try_get("id")?, invitation.try_get("email")?);
        // The process may have died before it sent the mail.
        self.database.execute(&call, SEND_MAIL, &[(&id, Type::UUID), (&email, Type::TEXT)]).await?;
        Ok(Reconciliation::completed(&InviteMemberResponse { invitation_id: id.to_string() }))
    }
}

#[tonic::async_trait]
impl InviteService for Invites {
    async fn invite_member(
        &self,
        request: Request<InviteMemberRequest>,
    ) -> Result<Response<InviteMemberResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let email = fields::email("email", &request.email)?;
        let role = fields::role("role", &request.role)?;
        let parameters: Parameters<'_> = &[(&email, Type::TEXT), (&role, Type::TEXT), (&call.key, Type::UUID)];
        let invitation = self.database.create(&call, &INSERT_INVITATION, parameters).await?;

        // The invitation exists, and `create` has reported that to the layer. If sending the mail fails now, a retry
        // finds the invitation and sends the mail; it does not create a second one.
        self.database.execute(&call, SEND_MAIL, &[(&invitation, Type::UUID), (&email, Type::TEXT)]).await?;
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
