//! The log lines of tokio-postgres about a store's statements.

use std::sync::Mutex;

use log::{LevelFilter, Log, Metadata, Record};

use crate::prelude::*;

/// Everything that is logged by this process.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl Log for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.0.lock().expect("no panic").push(format!("{} {} {}", record.level(), record.target(), record.args()));
    }

    fn flush(&self) {}
}

const RESPONSE: &str = "the response that must not be logged";
const HASH: [u8; 32] = *b"the hash that must not be logged";

/// The ways in which bytes, texts and UUIDs are shown.
fn shown(secret: &[u8]) -> [String; 4] {
    let list = format!("{secret:?}");
    let hex = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    [list[1..list.len() - 1].to_owned(), hex, secret.escape_ascii().to_string(), secret.escape_ascii().to_string()]
}

fn secret(user: Uuid) -> Claim {
    Claim { request: RequestHash::from(HASH).into(), ..claim(user, Uuid::new_v4()) }
}

async fn every_statement(store: &PostgresStore, user: Uuid) -> Vec<Uuid> {
    let completion = Completion { response: StoredResponse::message(RESPONSE), resource: None, retention: HOUR };
    let [reserved, transactional] = [(); 2].map(|()| secret(user));
    complete(store, &reserved, &completion).await;
    store.claim(&again(&reserved)).await.expect("a replay");
    let transaction = open_transaction(store, &transactional).await;
    assert_eq!(transaction.commit(Some(completion)).await.expect("it commits"), CommitOutcome::Committed);
    [reserved, transactional].map(|claim| claim.reservation.key.to_string().parse().expect("a UUID")).to_vec()
}

#[tokio::test]
async fn have_no_key_no_hash_and_no_response() {
    log::set_logger(&LINES).expect("the only logger");
    log::set_max_level(LevelFilter::Trace);
    let database = Database::new().await;
    let parsed = database.store().prepared_statements(PreparedStatements::Never);
    for (prepared, store) in [(false, parsed), (true, database.store())] {
        LINES.0.lock().expect("no panic").clear();
        let keys = every_statement(&store, database.user().await.id).await;
        let lines = LINES.0.lock().expect("no panic").clone();
        assert!(!prepared || lines.iter().any(|line| line.contains("with parameters")), "statements are logged");
        let keys = keys.iter().flat_map(|key| [shown(key.as_bytes()), shown(key.to_string().as_bytes())]);
        for secret in keys.chain([shown(RESPONSE.as_bytes()), shown(&HASH)]).flatten() {
            let found: Vec<_> = lines.iter().filter(|line| line.contains(&secret)).collect();
            assert!(found.is_empty(), "{secret}: {found:?}");
        }
    }
}
