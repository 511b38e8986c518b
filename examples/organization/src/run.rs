//! Runs the sample from start to shutdown.

use std::{env, net::SocketAddr, path::Path, pin::pin, time::Duration};

use scratch_postgres::{Server, Source};
use tokio::{net::TcpListener, time};

use crate::{
    ALICE, Args, BOB, CLUSTER, EXTERNAL_USER, ORGANIZATION, OTHER_ORGANIZATION,
    auth::Issuer,
    bootstrap,
    driver::{ApiDatabase, Driver},
    error::Error,
    hosts::Hosts,
    metrics,
    on_tokio_postgres::TokioPostgres,
    outbox::Worker,
    playground,
    ready::{Ready, ReadyFile, Tokens},
    server::Service,
    signals::Signals,
    tour,
};

/// The maximum time to wait for running calls at shutdown.
const GRACE: Duration = Duration::from_secs(15);

/// Runs the sample until Ctrl-C or SIGTERM; a second signal stops it without waiting for running calls. If the sample
/// has started the database server, stops and removes it.
///
/// # Errors
///
/// The address is in use, no database was found, or the database cannot be migrated.
pub async fn run(args: Args) -> Result<(), Error> {
    run_on::<TokioPostgres>(args).await
}

/// Does the same as [`run`] on another driver.
///
/// # Errors
///
/// As [`run`].
pub async fn run_on<D: Driver>(args: Args) -> Result<(), Error> {
    let signals = Signals::listen()?;
    let listener = listen(&args.listen).await?;
    tracing::info!("looking for a PostgreSQL server");
    let sources = sources();
    let server = tokio::select! {
        server = Server::start(&sources) => server?,
        () = signals.first() => return Ok(()),
    };
    let served = tokio::select! {
        served = serve::<D>(&args, listener, &server, &signals) => served,
        () = signals.second() => Ok(()),
    };
    server.stop().await;
    served
}

async fn listen(address: &str) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|error| {
        format!("cannot listen on {address}: {error}; choose another address with --listen ADDR").into()
    })
}

/// Returns only `DATABASE_URL` if it is set; otherwise PostgreSQL's installed binaries, and then a container.
fn sources() -> Vec<Source> {
    match env::var("DATABASE_URL") {
        Ok(url) if !url.is_empty() => vec![Source::Url(url)],
        _ => vec![Source::Installed, Source::Container],
    }
}

/// Serves until the first signal. Then stops accepting calls, waits for running calls, and stops the background tasks.
async fn serve<D: Driver>(args: &Args, listener: TcpListener, server: &Server, signals: &Signals) -> Result<(), Error> {
    tokio::select! {
        ready = bootstrap::bootstrap(server.url()) => ready?,
        () = signals.first() => return Ok(()),
    }
    let issuer = Issuer::new(env::var("TOKEN_SECRET").ok())?;
    let ready = ready(listener.local_addr()?, server.url(), &issuer)?;
    let page = playground::site(&ready, Hosts::new(&args.listen, &args.hosts))?;
    let site = page.merge(metrics::site()?);
    let driver = D::new(&api_database(server.url()), args.handler_delay)?;
    let service = Service::new(args, driver, issuer.authentication(), site).await?;
    let worker = Worker::spawn(server.url().to_owned(), args.outbox_delay);

    let ready_file = args.ready_file.as_deref().map(|path| write_ready_file(path, &ready)).transpose()?;
    tour::print(&ready, server, args.outbox_delay);

    let served = until_stopped(&service, service.serve(listener, signals.clone()), signals).await;
    drop(ready_file);
    service.stop().await;
    drop(worker);
    served
}

/// Waits for the first signal, and then at most [`GRACE`] for running calls.
async fn until_stopped(
    service: &Service<impl Driver>,
    serving: impl Future<Output = Result<(), Error>>,
    signals: &Signals,
) -> Result<(), Error> {
    let mut serving = pin!(serving);
    tokio::select! {
        served = &mut serving => return served,
        () = signals.first() => {}
    }
    tracing::info!("shutting down; press Ctrl-C again to stop without waiting for running calls");
    let (served, ()) = tokio::join!(time::timeout(GRACE, serving), service.shutdown(GRACE));
    served.unwrap_or(Ok(()))
}

/// The database of the API's own connections: `API_DATABASE_URL`, or else the superuser's.
fn api_database(database_url: &str) -> ApiDatabase {
    match env::var("API_DATABASE_URL") {
        Ok(url) if !url.is_empty() => ApiDatabase { url, is_pooled: true },
        _ => ApiDatabase { url: database_url.to_owned(), is_pooled: false },
    }
}

fn ready<'a>(address: SocketAddr, database_url: &'a str, issuer: &Issuer) -> Result<Ready<'a>, Error> {
    Ok(Ready {
        address,
        database_url,
        tokens: Tokens {
            alice: issuer.token(&ALICE.to_string(), None)?,
            bob: issuer.token(&BOB.to_string(), None)?,
            x_here: issuer.token(EXTERNAL_USER, Some(ORGANIZATION))?,
            x_there: issuer.token(EXTERNAL_USER, Some(OTHER_ORGANIZATION))?,
        },
        organization_id: ORGANIZATION,
        cluster_id: CLUSTER,
    })
}

fn write_ready_file(path: &Path, ready: &Ready<'_>) -> Result<ReadyFile, Error> {
    ReadyFile::write(path, ready).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
