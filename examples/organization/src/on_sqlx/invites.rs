//! Invitations, which are sent by mail.

use sqlx::{FromRow, PgConnection, Row as _, postgres::PgRow};
use tonic::{Request, Response, Status};
use tonic_idempotency::policy::{Abandoned, Reconciler, Reconciliation};
use uuid::Uuid;

use super::{created, database::Database, failure::of_statement, id};
use crate::{
    auth::Caller,
    call::Call,
    fields,
    proto::{
        Invitation, InviteMemberRequest, InviteMemberResponse, ListInvitationsRequest, ListInvitationsResponse,
        invite_service_server::InviteService,
    },
};

const INSERT_INVITATION: &str =
    "INSERT INTO tenant.organization_users (email, role, idempotency_key) VALUES ($1, $2, $3) RETURNING id";

/// Sends a mail. The table stands for a mail provider that accepts one mail for each invitation.
const SEND_MAIL: &str = "INSERT INTO tenant.mails (invitation_id, recipient) VALUES ($1, $2) ON CONFLICT (organization_id, invitation_id) DO NOTHING";

const SELECT_INVITATION_OF_KEY: &str = "SELECT id, email FROM tenant.organization_users \
     WHERE invited_by = $1 AND idempotency_key = $2 ORDER BY id LIMIT 1";

const SELECT_INVITATIONS: &str =
    "SELECT id, email, role, status, created FROM tenant.organization_users ORDER BY id DESC LIMIT 1000";

/// The `InviteService`.
#[derive(Debug)]
pub(super) struct Invites {
    database: Database,
}

impl Invites {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }
}

/// Determines the outcome of an `InviteMember` call whose process died: whether its invitation exists.
#[derive(Debug)]
pub(crate) struct InvitesReconciler {
    database: Database,
}

impl InvitesReconciler {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }
}

impl Reconciler for InvitesReconciler {
    async fn reconcile(
        &self,
        abandoned: Abandoned,
    ) -> Result<Reconciliation, Box<dyn std::error::Error + Send + Sync>> {
        let call = Call::of_abandoned(&abandoned);
        let mut connection = self.database.write(&call).await?;
        let select = self.database.query_as(SELECT_INVITATION_OF_KEY).bind(call.caller.user).bind(call.key);
        let found: Option<(Uuid, String)> = select.fetch_optional(&mut *connection).await?;
        let Some((invitation, email)) = found else {
            return Ok(Reconciliation::NotExecuted);
        };
        // The process may have died before it sent the mail.
        self.database.send_mail(&mut connection, invitation, &email).await?;
        connection.done().await?;
        Ok(Reconciliation::completed(&InviteMemberResponse { invitation_id: invitation.to_string() }))
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

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_INVITATION).bind(email).bind(role).bind(call.key);
        let invitation: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "organization_user", invitation).await?;

        // The invitation exists, and `created` has reported that to the layer. If sending the mail fails now, a retry finds
        // the invitation and sends the mail; it does not create a second one.
        let mut connection = self.database.write(&call).await?;
        self.database.send_mail(&mut connection, invitation, email).await.map_err(of_statement)?;
        connection.done().await?;
        Ok(Response::new(InviteMemberResponse { invitation_id: invitation.to_string() }))
    }

    async fn list_invitations(
        &self,
        request: Request<ListInvitationsRequest>,
    ) -> Result<Response<ListInvitationsResponse>, Status> {
        let mut connection = self.database.read(Caller::of(&request)?).await?;
        let invitations =
            self.database.query_as(SELECT_INVITATIONS).fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(ListInvitationsResponse { invitations }))
    }
}

impl Database {
    async fn send_mail(&self, connection: &mut PgConnection, invitation: Uuid, email: &str) -> Result<(), sqlx::Error> {
        self.query(SEND_MAIL).bind(invitation).bind(email).execute(connection).await?;
        Ok(())
    }
}

impl FromRow<'_, PgRow> for Invitation {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: id(row, "id")?,
            email: row.try_get("email")?,
            role: row.try_get("role")?,
            status: row.try_get("status")?,
            created: created(row)?,
        })
    }
}
