//! Fills the database before the first call. Repeating it changes nothing, so that a second start on the same
//! database finds the rows of the first.

use tokio_postgres::{Client, Config, NoTls, error::SqlState, types::Type};
use tonic_idempotency::{Caller, Scope, UserId};
use uuid::{Uuid, uuid};

use crate::{
    database::{API_ROLE, LOGIN_ROLE, OPERATOR_ROLE},
    error::Error,
    failure::chain,
    migrations,
};

/// The organisation that `alice` and `bob` belong to.
pub const ORGANIZATION: Uuid = uuid!("0198c0de-0000-7000-8000-000000000001");

/// Another organisation, without a cluster.
pub const OTHER_ORGANIZATION: Uuid = uuid!("0198c0de-0000-7000-8000-000000000002");

/// A user of an identity provider, in both organisations.
pub const EXTERNAL_USER: &str = "auth0|x";

/// The user `alice`.
pub const ALICE: Uuid = uuid!("0198c0de-0000-7000-8000-00000000000a");

/// The user `bob`.
pub const BOB: Uuid = uuid!("0198c0de-0000-7000-8000-00000000000b");

/// The organisation's first cluster.
pub const CLUSTER: Uuid = uuid!("0198c0de-0000-7000-8000-0000000000c1");

/// The API's role cannot log in; the sample's connections switch to it.
const CREATE_API_ROLE: &str = "CREATE ROLE organization_api NOLOGIN";

const GRANT_TO_API_ROLE: &str = "SELECT tenant.organization_grant($1::text::name)";

const GRANT_TO_OPERATOR_ROLE: &str = "SELECT tenant.idempotency_grant_operator($1::text::name)";

const INSERT_ORGANIZATION: &str =
    "INSERT INTO tenant.organizations (id, name) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";

const INSERT_USER: &str =
    "INSERT INTO tenant.users (id, organization_id, name) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING";

const INSERT_CLUSTER: &str = "INSERT INTO tenant.clusters (id, organization_id, name, region) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (id) DO NOTHING";

/// Brings the database up to date, as the superuser whose URL it is, and puts in the example's rows.
///
/// # Errors
///
/// It cannot be reached, or the user is not a superuser.
pub async fn bootstrap(database_url: &str) -> Result<(), Error> {
    let mut client = connect(database_url).await?;
    let superuser: bool =
        client.query_typed_one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user", &[]).await?.try_get(0)?;
    if !superuser {
        return Err(
            "the user of DATABASE_URL is not a superuser, and the sample makes a role and sees every user's rows; \
             use a superuser's URL, or unset DATABASE_URL for a private server"
                .into(),
        );
    }

    migrations::run(&mut client).await?;
    create_api_role(&client).await?;
    create_login_role(&client, database_url, LOGIN_ROLE, &format!("NOINHERIT IN ROLE {API_ROLE}")).await?;
    create_login_role(&client, database_url, OPERATOR_ROLE, "").await?;
    client.query_typed(GRANT_TO_OPERATOR_ROLE, &[(&OPERATOR_ROLE, Type::TEXT)]).await?;
    insert_example(&client).await?;
    Ok(())
}

/// A connection of its own, as the superuser whose URL it is.
pub(crate) async fn connect(database_url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(database_url, NoTls).await.map_err(unreachable)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a database connection ended");
        }
    });
    Ok(client)
}

/// Roles belong to the whole server: another database's sample may have made it, or be making it right now.
async fn create_api_role(client: &Client) -> Result<(), Error> {
    if let Err(error) = client.batch_execute(CREATE_API_ROLE).await
        && !matches!(error.code(), Some(&SqlState::DUPLICATE_OBJECT | &SqlState::UNIQUE_VIOLATION))
    {
        return Err(error.into());
    }
    client.query_typed(GRANT_TO_API_ROLE, &[(&API_ROLE, Type::TEXT)]).await?;
    Ok(())
}

/// Returns the address of the database for an operator, whose password is that of `database_url`. `None` if that is not a URL.
pub(crate) fn operator_url(database_url: &str, with_password: bool) -> Option<String> {
    let (scheme, rest) = database_url.split_once("://")?;
    let (user, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
    let password = user.split_once(':').filter(|_| with_password).map_or(String::new(), |(_, word)| format!(":{word}"));
    Some(format!("{scheme}://{OPERATOR_ROLE}{password}@{rest}"))
}

/// The API and an operator log in as roles of their own, with the password of the superuser, so that the URL says all of it.
async fn create_login_role(client: &Client, database_url: &str, role: &str, options: &str) -> Result<(), Error> {
    let config: Config = database_url.parse()?;
    let password = config.get_password().map(|password| String::from_utf8_lossy(password).replace('\'', "''"));
    let password = password.map_or("NULL".to_owned(), |password| format!("'{password}'"));
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD {password} {options}");
    let Err(error) = client.batch_execute(&create).await else { return Ok(()) };
    if !matches!(error.code(), Some(&SqlState::DUPLICATE_OBJECT | &SqlState::UNIQUE_VIOLATION)) {
        return Err(error.into());
    }
    let alter = format!("ALTER ROLE {role} PASSWORD {password}");
    match client.batch_execute(&alter).await {
        // Another server sets the same password at the same time ("tuple concurrently updated").
        Err(error) if error.code() != Some(&SqlState::INTERNAL_ERROR) => Err(error.into()),
        _ => Ok(()),
    }
}

async fn insert_example(client: &Client) -> Result<(), Error> {
    for (organization, name) in [(ORGANIZATION, "Example"), (OTHER_ORGANIZATION, "Other")] {
        client.query_typed(INSERT_ORGANIZATION, &[(&organization, Type::UUID), (&name, Type::TEXT)]).await?;
    }
    let external = Caller::new(UserId::from_text(EXTERNAL_USER)?);
    let [here, there] = [ORGANIZATION, OTHER_ORGANIZATION].map(|organization| {
        let caller = external.clone().in_scope(Scope::new(organization));
        (*caller.owner().as_uuid(), organization, EXTERNAL_USER)
    });
    for (user, organization, name) in [(ALICE, ORGANIZATION, "alice"), (BOB, ORGANIZATION, "bob"), here, there] {
        client
            .query_typed(INSERT_USER, &[(&user, Type::UUID), (&organization, Type::UUID), (&name, Type::TEXT)])
            .await?;
    }
    client
        .query_typed(
            INSERT_CLUSTER,
            &[(&CLUSTER, Type::UUID), (&ORGANIZATION, Type::UUID), (&"first", Type::TEXT), (&"nl-1", Type::TEXT)],
        )
        .await?;
    Ok(())
}

fn unreachable(error: tokio_postgres::Error) -> Error {
    format!("cannot connect to the database: {}", chain(&error)).into()
}
