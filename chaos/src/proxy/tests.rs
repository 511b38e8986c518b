use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

/// A proxy in front of a server that sends back what it gets.
async fn proxy() -> Proxy {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let upstream = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    Proxy::start(upstream, 0, Arc::new(Journal::new())).await.expect("a proxy")
}

/// The faults that it has noted.
fn noted(proxy: &Proxy) -> Vec<FaultKind> {
    proxy.road.journal.entries().faults.iter().map(|fault| fault.kind).collect()
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.expect("it listens")
}

/// What comes back of `sent`, until there is as much or the connection ends.
async fn echo(stream: &mut TcpStream, sent: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(sent).await;
    let mut got = vec![0; sent.len()];
    let mut length = 0;
    while length < sent.len() {
        match timeout(PATIENCE, stream.read(&mut got[length..])).await.expect("something happens") {
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
    }
    got.truncate(length);
    got
}

#[tokio::test]
async fn carries_everything_until_a_cut_is_due_in_the_middle_of_an_answer() {
    let proxy = proxy().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(echo(&mut stream, b"before").await, b"before");
    let mut other = connect(&proxy).await;
    assert_eq!(echo(&mut other, b"before").await, b"before");
    assert_eq!(proxy.ports().len(), 2);

    let moment = Moment::Bytes { direction: Direction::Answers, left: 3 };
    proxy.cut_later(Cut { all: false, moment });

    assert_eq!(echo(&mut stream, b"answer").await, b"ans");
    assert_eq!(echo(&mut other, b"after").await, b"after");
    assert_eq!(noted(&proxy), [FaultKind::ConnectionCut]);
}

#[tokio::test]
async fn a_cut_of_all_ends_the_idle_connections_too() {
    let proxy = proxy().await;
    let (mut busy, mut idle) = (connect(&proxy).await, connect(&proxy).await);
    assert_eq!(echo(&mut idle, b"before").await, b"before");

    let moment = Moment::Bytes { direction: Direction::Requests, left: 0 };
    proxy.cut_later(Cut { all: true, moment });

    assert_eq!(echo(&mut busy, b"request").await, b"");
    assert_eq!(timeout(PATIENCE, idle.read(&mut [0])).await.expect("it ends").unwrap_or(0), 0);
    assert_eq!(noted(&proxy), [FaultKind::ConnectionsCut]);
    assert_eq!(echo(&mut connect(&proxy).await, b"after").await, b"after");
}

#[tokio::test]
async fn loses_the_answer_to_a_commit_that_was_done() {
    let proxy = proxy().await;
    proxy.cut_later(Cut { all: false, moment: Moment::AfterCommit });
    let mut stream = connect(&proxy).await;
    assert_eq!(echo(&mut stream, b"SELECT 1\0").await, b"SELECT 1\0");
    assert_eq!(noted(&proxy), []);

    assert_eq!(echo(&mut stream, b"COMMIT\0").await, b"");

    // It came back from the other side.
    assert_eq!(noted(&proxy), [FaultKind::AfterCommitCut]);
}

#[tokio::test]
async fn keeps_a_commit_from_being_done() {
    let proxy = proxy().await;
    proxy.cut_later(Cut { all: false, moment: Moment::BeforeCommit });
    let mut stream = connect(&proxy).await;
    assert_eq!(echo(&mut stream, b"SELECT 1\0").await, b"SELECT 1\0");

    assert_eq!(echo(&mut stream, b"COMMIT\0").await, b"");

    assert_eq!(noted(&proxy), [FaultKind::BeforeCommitCut]);
}

#[tokio::test]
async fn carries_nothing_while_it_is_held_and_all_of_it_afterwards() {
    let proxy = proxy().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(echo(&mut stream, b"before").await, b"before");
    let hold = Duration::from_millis(200);

    let (begun, stall) = (std::time::Instant::now(), Stall { hold, manner: Manner::Held });
    let ((), echoed) = tokio::join!(proxy.stall(stall), echo(&mut stream, b"held"));

    assert_eq!(echoed, b"held");
    assert!(begun.elapsed() >= hold);
}

#[tokio::test]
async fn parted_it_takes_no_connections_until_it_is_mended() {
    let proxy = proxy().await;
    let mut stream = connect(&proxy).await;
    assert_eq!(echo(&mut stream, b"before").await, b"before");

    proxy.part();

    assert_eq!(echo(&mut stream, b"parted").await, b"");
    assert_eq!(echo(&mut connect(&proxy).await, b"parted").await, b"");
    proxy.mend();
    assert_eq!(echo(&mut connect(&proxy).await, b"mended").await, b"mended");
}
