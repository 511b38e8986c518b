//! `tonic-idempotency inspect`: the state of a key.

use tokio_postgres::types::Type;

use super::{
    key::Key,
    state::{INSPECT, Inspected, only},
};
use crate::{
    connection::{Connection, ConnectionOptions, Parameters},
    failure::Failure,
    output::{self, ALERT, GOOD},
};

/// Shows the state of a key, what a retry meets, and what to do next.
///
/// Shows no response. It is noted in tenant.idempotency_audit.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) key: Key,
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
}

pub(crate) async fn inspect(options: &Options) -> Result<(), Failure> {
    let connection = Connection::of_operator(&options.connection).await?;
    let text = options.key.text(&connection).await?;
    let parameters: Parameters<'_> =
        &[(&text, Type::TEXT), (&options.key.user, Type::TEXT), (&options.key.scope, Type::TEXT)];
    let answer = only(connection.ask::<Inspected>(INSPECT, parameters).await?)?;
    if options.connection.json {
        return output::line(&answer.json);
    }
    let [(state, cause), (retry, meets), (next, todo)] = answer.row.explained(&options.key);
    let style = if answer.row.state.is_stuck() { ALERT } else { GOOD };
    output::line(&format!("{style}{state}{style:#}: {cause}"))?;
    output::line(&format!("{retry:<10} {meets}"))?;
    output::line(&format!("{next:<10} {todo}"))
}
