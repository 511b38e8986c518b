//! The memory of a record is what the page says.

use scratch_redis::Server;
use tonic_idempotency::store::{Completion, Store as _, StoredResponse};

use crate::{
    record::{acquire, claim, completion, name_of},
    servers::{on, start},
};

const PAGE: &str = include_str!("../../../docs/redis.md");

/// The least that is around a record, such as the entry with its time to live: `MEMORY USAGE` leaves it out.
const AROUND: u64 = 56;

/// Records a response of so many bytes, and returns the memory that the server needs for it.
async fn memory(server: &Server, bytes: usize) -> u64 {
    let first = claim();
    let store = on(server).prefix("idempotency").expect("a prefix");
    acquire(&store, &first).await;
    let completion = Completion { response: StoredResponse::message(vec![b'x'; bytes]), ..completion("") };
    store.complete(&first.reservation, &completion).await.expect("an answer");
    let name = name_of(&first, "idempotency");
    let answer = server.ask(&["MEMORY", "USAGE", &name, "SAMPLES", "0"]);
    answer.trim().parse::<u64>().expect("a number") + AROUND
}

#[tokio::test]
async fn a_record_needs_the_memory_of_the_page() {
    let (_, table) = PAGE.split_once("| response |").expect("the table of the page");
    let (head, rows) = table.split_once("|---").expect("its head");
    let values: Vec<_> = head.split('`').skip(1).step_by(2).collect();
    let Some(servers) = values.iter().map(|setting| start(&[setting])).collect::<Option<Vec<_>>>() else { return };
    assert_eq!(servers.len(), 2, "{values:?}");
    let numbers = |row: &str| -> Vec<usize> {
        let cells = row.split('|').map(|cell| cell.chars().filter(char::is_ascii_digit).collect::<String>());
        cells.filter_map(|digits| digits.parse().ok()).collect()
    };
    let rows: Vec<_> = rows.lines().skip(1).take_while(|line| line.starts_with('|')).map(numbers).collect();
    assert!(rows.len() > 3, "{rows:?}");
    for row in rows {
        let [bytes, default, listpack] = row[..] else { panic!("{row:?}") };
        for (server, said) in servers.iter().zip([default, listpack]) {
            let found = memory(server, bytes).await;
            // More is around hash tables, and other versions and allocators differ a little.
            let said = said as u64;
            assert!(found.abs_diff(said) * 10 <= said, "{bytes} bytes: {found}, and the page says {said}");
        }
    }
}
