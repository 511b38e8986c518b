//! The promises of the migrations, with any runner.

use std::{path::Path, sync::Arc};

use tokio::task::JoinSet;
use tonic_idempotency::{migrations, store::Schema};

use crate::{
    files::Files,
    runner::{Failed, Runner},
    world::{OPTIONS, empty, is_complete, migrate, versions},
};

/// The servers that start at once.
const SERVERS: usize = 6;

pub(crate) async fn change_nothing_by_the_crate_afterwards<R: Runner>() {
    let (database, mut owner) = empty().await;
    let files = Files::of::<R>();
    files.write(&OPTIONS);
    R::run(database.url(), files.path(), false).await.expect("the runner");
    is_complete(&owner, &Schema::default()).await;

    let before = versions(&owner, &Schema::default()).await;
    migrate(&mut owner, &Schema::default()).await;
    assert_eq!(versions(&owner, &Schema::default()).await, before);
    // The runner has nothing more to do, either.
    files.write(&OPTIONS);
    R::run(database.url(), files.path(), false).await.expect("the runner");
    assert_eq!(versions(&owner, &Schema::default()).await, before);
}

pub(crate) async fn change_nothing_after_the_crate<R: Runner>() {
    let (database, mut owner) = empty().await;
    let files = Files::of::<R>();
    R::run(database.url(), files.path(), false).await.expect("the application's own");
    migrate(&mut owner, &Schema::default()).await;
    let before = versions(&owner, &Schema::default()).await;

    files.write(&OPTIONS);
    R::run(database.url(), files.path(), false).await.expect("the runner");
    assert_eq!(versions(&owner, &Schema::default()).await, before);
    is_complete(&owner, &Schema::default()).await;
}

pub(crate) async fn have_other_names<R: Runner>() {
    let (database, mut owner) = empty().await;
    let schema = Schema::new("My-Billing").and_then(|schema| schema.table("operations")).expect("names");
    let files = Files::of::<R>();
    files.write(&OPTIONS);
    let named = [&["--schema=My-Billing", "--table=operations"], OPTIONS.as_slice()].concat();
    files.write(&named);
    R::run(database.url(), files.path(), false).await.expect("the runner");
    for schema in [&schema, &Schema::default()] {
        is_complete(&owner, schema).await;
        let before = versions(&owner, schema).await;
        migrate(&mut owner, schema).await;
        assert_eq!(versions(&owner, schema).await, before);
    }
}

/// As the documentation says: the runner's own lock, or an advisory lock around it.
pub(crate) async fn are_run_by_six_servers_at_once<R: Runner>() {
    let (database, owner) = empty().await;
    let files = Arc::new(Files::of::<R>());
    files.write(&OPTIONS);
    let mut servers = JoinSet::new();
    for _ in 0..SERVERS {
        let (url, files) = (database.url().to_owned(), Arc::clone(&files));
        servers.spawn_blocking(move || block_on(R::run(&url, files.path(), !R::LOCKS)));
    }
    for ended in servers.join_all().await {
        ended.expect("the runner");
    }
    is_complete(&owner, &Schema::default()).await;
}

/// Runners without a lock fail at their own history, which has each migration once, and nowhere else. The next attempt finds it
/// done.
pub(crate) async fn are_run_by_six_servers_at_once_without_a_lock<R: Runner>() {
    let (database, owner) = empty().await;
    let files = Arc::new(Files::of::<R>());
    R::run(database.url(), files.path(), false).await.expect("the application's own");
    files.write(&OPTIONS);
    let mut servers = JoinSet::new();
    for _ in 0..SERVERS {
        let (url, files) = (database.url().to_owned(), Arc::clone(&files));
        servers.spawn_blocking(move || block_on(again_and_again::<R>(&url, files.path())));
    }
    let errors = servers.join_all().await.concat();
    assert!(!R::LOCKS || errors.is_empty(), "{errors:?}");
    is_complete(&owner, &Schema::default()).await;
}

/// While the one takes over from the other.
pub(crate) async fn are_run_by_the_crate_and_the_runner_at_once<R: Runner>() {
    let (database, owner) = empty().await;
    let files = Files::of::<R>();
    R::run(database.url(), files.path(), false).await.expect("the application's own");
    files.write(&OPTIONS);
    let mut servers = JoinSet::new();
    for _ in 0..SERVERS / 2 {
        let mut client = database.connect().await;
        servers.spawn(async move { migrate(&mut client, &Schema::default()).await });
    }
    let (url, path) = (database.url().to_owned(), files.path().to_owned());
    servers.spawn_blocking(move || {
        block_on(again_and_again::<R>(&url, &path));
    });
    servers.join_all().await;
    is_complete(&owner, &Schema::default()).await;
}

/// New migrations come after those of the application that were run since.
pub(crate) async fn are_added_by_an_upgrade<R: Runner>() {
    let (database, owner) = empty().await;
    let files = Files::of::<R>();
    files.write(&[]);
    let library = migrations::all(&Schema::default());
    let newest = library.last().expect("migrations");
    files.remove(&format!("tonic_idempotency_{}_{}", newest.version(), newest.name()));
    R::run(database.url(), files.path(), false).await.expect("the older version");
    files.put(R::LATER, "CREATE TABLE billing.refunds (id uuid PRIMARY KEY)");
    R::run(database.url(), files.path(), false).await.expect("the application's own");

    files.write(&OPTIONS);
    R::run(database.url(), files.path(), false).await.expect("the newer version");
    is_complete(&owner, &Schema::default()).await;
}

/// Runs the migrations until the runner succeeds, as servers are started again. Returns the errors: a runner fails at its own
/// history, or because another server registers the type for longer than the library waits, and never otherwise.
async fn again_and_again<R: Runner>(url: &str, folder: &Path) -> Vec<String> {
    let mut errors = Vec::new();
    while let Err(error) = R::run(url, folder, false).await {
        let error = chain(&error);
        let expected =
            ["_schema_history", "_schema_migrations", "\"billing\"", "pg_namespace", "invoice is not registered"];
        assert!(expected.iter().any(|name| error.contains(name)), "{error}");
        errors.push(error);
        assert!(errors.len() < 100, "{errors:?}");
        tokio::task::yield_now().await;
    }
    errors
}

/// Runs a future on a runtime of its own: not every runner's future can be sent to another thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// The messages of an error and of its causes.
fn chain(error: &Failed) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
