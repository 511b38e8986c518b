//! The disk of a database server, and the spans of the layer, have nothing of sealed records.

use std::{
    fs,
    path::{Path, PathBuf},
};

use memchr::memmem;
use scratch_postgres::{Server, skip};
use tonic_idempotency_tests::Lines;
use tracing_subscriber::{
    filter::filter_fn,
    fmt::{self, format::FmtSpan},
    layer::{Layer as _, SubscriberExt as _},
};

use crate::harness::add_resource_columns;
use crate::prelude::*;
use crate::sealed::{dump, hex, keys};

const CALLS: usize = 1_000;

/// The server logs all statements, with their parameters.
const SETTINGS: [&str; 3] = ["log_statement=all", "logging_collector=on", "log_directory=log"];

/// The files below a folder that have this text, as it is or in hexadecimal digits.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
            continue;
        }
        // The server may have removed it since.
        let Ok(bytes) = fs::read(&path) else { continue };
        let has = |text: &str| memmem::find(&bytes, text.as_bytes()).is_some();
        if has(text) || has(&hex(text)) {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn a_thousand_responses_are_nowhere_in_the_clear() {
    let server = match Server::start_durable_with(&SETTINGS).await {
        Ok(server) => server,
        Err(error) => return skip("installed-postgres", error),
    };
    let database = Database::on(server.url()).await;
    add_resource_columns(&database).await;
    let owner = database.owner().await;
    let folder: String = owner.query_one("SHOW data_directory", &[]).await.expect("a setting").get(0);
    let folder = PathBuf::from(folder);
    for seals in [false, true] {
        let lines = Lines::default();
        let ours = filter_fn(|metadata| metadata.target().starts_with("tonic_idempotency"));
        let spans = fmt::layer().with_writer(lines.clone()).with_span_events(FmtSpan::FULL).with_filter(ours);
        let _collecting = tracing::subscriber::set_default(tracing_subscriber::registry().with(spans));
        let secret = Uuid::new_v4().to_string();
        for mode in [Mode::Reserved, Mode::Transactional] {
            let store = postgres(database.pool(4));
            let shop = Shop::with(|builder| {
                let in_mode = move |it: ProcedureBuilder| it.mode(mode).effect(EffectPolicy::Anywhere);
                let builder = builder.store(store).adjust_procedures(in_mode);
                if seals { builder.seal(keys("one")) } else { builder }
            })
            .await;
            for call in 0..CALLS / 2 {
                let (shop, name) = (shop.with_new_key(), format!("{secret} {call}"));
                let first = shop.create(&name).await.expect("the first call");
                if call % 10 == 0 {
                    shop.create(&name).await.expect("a replay").assert_replays("processing", &first);
                }
            }
        }
        owner.batch_execute("CHECKPOINT").await.expect("all is on the disk");
        let files = files_with(&folder, &secret);
        let in_folder = |name: &str| files.iter().any(|file| file.starts_with(folder.join(name)));
        let in_dump = dump(&database).await.contains(&hex(&secret));
        let [log, table, wal] = ["log", "base", "pg_wal"].map(in_folder);
        assert_eq!([log, table, wal, in_dump], [!seals; 4], "{files:?}");
        assert!(!seals || files.is_empty(), "{files:?}");
        let written = lines.take();
        assert!(written.contains("idempotency.") && !written.contains(&secret), "{written}");
    }
}
