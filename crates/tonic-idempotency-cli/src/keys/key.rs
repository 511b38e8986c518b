//! A key, as a command line names it.

use tokio_postgres::types::Type;

use crate::{connection::Connection, failure::Failure, output::quoted};

/// A key and its user.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Key {
    /// The key as the client sent it, or its id in `list`; with --operation, the operation's id.
    pub(crate) key: String,
    /// The user as the application names it, or the owner's id in `list`.
    #[arg(long, value_name = "USER")]
    pub(crate) user: String,
    /// The user's scope, if the application has scopes.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// The key is that of an operation with this name, such as billing.v1/ChargeOrder.
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<String>,
}

impl Key {
    /// Returns the key's text for the operators' functions.
    pub(crate) async fn text(&self, connection: &Connection) -> Result<String, Failure> {
        let Some(operation) = &self.operation else { return Ok(self.key.clone()) };
        let select = "SELECT tenant.idempotency_operation_key($1, $2)::text";
        let row = connection.call(select, &[(operation, Type::TEXT), (&self.key, Type::TEXT)]).await?;
        row.try_get(0).map_err(|error| Failure::NoAnswer(error.to_string()))
    }

    /// Returns the arguments of a command line that name this key.
    pub(crate) fn arguments(&self) -> String {
        let mut arguments = format!("{} --user {}", quoted(&self.key), quoted(&self.user));
        for (name, value) in [("scope", &self.scope), ("operation", &self.operation)] {
            if let Some(value) = value {
                arguments += &format!(" --{name} {}", quoted(value));
            }
        }
        arguments
    }
}
