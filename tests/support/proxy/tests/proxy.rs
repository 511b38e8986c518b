//! Connections through a proxy: carried, cut, held, delayed, counted, or led to another server.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use tcp_proxy::{Cut, Direction, Moment, Proxy};

const PATIENCE: Duration = Duration::from_secs(10);

/// A proxy in front of a server that sends back what it gets.
fn proxy() -> Proxy {
    proxy_of(|stream| io::copy(&mut &stream, &mut &stream).map(drop))
}

/// A proxy in front of a server that treats each connection like this.
fn proxy_of(serve: fn(TcpStream) -> io::Result<()>) -> Proxy {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let server = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    Proxy::start(server).expect("a proxy")
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// A proxy, and a connection that has carried something.
fn connected() -> (Proxy, TcpStream) {
    let proxy = proxy();
    let stream = connected_to(&proxy);
    (proxy, stream)
}

fn connected_to(proxy: &Proxy) -> TcpStream {
    let mut stream = connect(proxy);
    assert_eq!(echo(&mut stream, b"before"), b"before");
    stream
}

/// Arms a cut; those that have happened are in what this returns.
fn cut_later(proxy: &Proxy, cut: Cut) -> Arc<Mutex<Vec<Cut>>> {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&noted);
    proxy.cut_later(cut, move || notes.lock().expect("no panic").push(cut));
    noted
}

fn noted(notes: &Mutex<Vec<Cut>>) -> Vec<Cut> {
    notes.lock().expect("no panic").clone()
}

/// Sends bytes, and returns those that come back until all have, or the connection ends.
fn echo(stream: &mut TcpStream, sent: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(sent);
    let mut got = vec![0; sent.len()];
    let mut length = 0;
    while length < sent.len() {
        match read(stream, &mut got[length..]) {
            0 => break,
            read => length += read,
        }
    }
    got.truncate(length);
    got
}

/// How many bytes arrive; 0 if the connection ends.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> usize {
    match stream.read(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("nothing happens"),
        read => read.unwrap_or(0),
    }
}

#[test]
fn carries_everything_until_a_cut_is_due_in_the_middle_of_an_answer() {
    let (proxy, mut stream) = connected();
    let mut other = connected_to(&proxy);
    assert_eq!(proxy.ports().len(), 2);

    let cut = Cut { all: false, moment: Moment::Bytes { direction: Direction::Answers, left: 3 } };
    let notes = cut_later(&proxy, cut);

    assert_eq!(echo(&mut stream, b"answer"), b"ans");
    assert_eq!(echo(&mut other, b"after"), b"after");
    assert_eq!(noted(&notes), [cut]);
}

#[test]
fn a_cut_of_all_ends_the_idle_connections_too() {
    let proxy = proxy();
    let (mut busy, mut idle) = (connect(&proxy), connect(&proxy));
    assert_eq!(echo(&mut idle, b"before"), b"before");

    let cut = Cut { all: true, moment: Moment::Bytes { direction: Direction::Requests, left: 0 } };
    let notes = cut_later(&proxy, cut);

    assert_eq!(echo(&mut busy, b"request"), b"");
    assert_eq!(read(&mut idle, &mut [0]), 0);
    assert_eq!(noted(&notes), [cut]);
    assert_eq!(echo(&mut connect(&proxy), b"after"), b"after");
}

/// A query, and what the server says at the end of an answer, since it sends back what it gets.
fn query(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len() + 5).expect("a length").to_be_bytes();
    [b"Q", &length[..], text.as_bytes(), b"\0Z\0\0\0\x05I"].concat()
}

/// Before: the server has not done it. After: its answer, which comes back from the other side, is lost.
#[test]
fn is_cut_before_or_after_a_commit_and_after_a_statement() {
    let (select, commit) = (b"SELECT 1\0".to_vec(), b"COMMIT\0".to_vec());
    let (other, write) = (query("CALL reserve(1)"), query("CALL write_many(1)"));
    for (moment, kept, cut_at) in [
        (Moment::AfterCommit, &select, &commit),
        (Moment::BeforeCommit, &select, &commit),
        (Moment::AfterStatement("write_many("), &other, &write),
    ] {
        let proxy = proxy();
        let cut = Cut { all: false, moment };
        let notes = cut_later(&proxy, cut);
        let mut stream = connect(&proxy);
        assert_eq!(&echo(&mut stream, kept), kept);
        assert_eq!(noted(&notes), []);
        assert_eq!(echo(&mut stream, cut_at), b"");
        assert_eq!(noted(&notes), [cut]);
    }
}

#[test]
fn does_not_cut_once_that_is_forgotten() {
    let proxy = proxy();
    let notes = cut_later(&proxy, Cut { all: false, moment: Moment::BeforeCommit });

    proxy.forget_cuts();

    assert_eq!(echo(&mut connect(&proxy), b"COMMIT\0"), b"COMMIT\0");
    assert_eq!(noted(&notes), []);
}

#[test]
fn carries_nothing_while_it_is_held_and_all_of_it_afterwards() {
    let (proxy, mut stream) = connected();
    let hold = Duration::from_millis(200);

    let begun = Instant::now();
    proxy.hold();
    let echoed = thread::scope(|scope| {
        let echoed = scope.spawn(|| echo(&mut stream, b"held"));
        thread::sleep(hold);
        proxy.release();
        echoed.join().expect("no panic")
    });

    assert_eq!(echoed, b"held");
    assert!(begun.elapsed() >= hold);
}

#[test]
fn carries_on_a_new_connection_while_the_others_are_stalled() {
    let (proxy, mut stream) = connected();

    proxy.stall_connections();
    stream.write_all(b"stalled").expect("it is sent");
    assert_eq!(echo(&mut connect(&proxy), b"beside"), b"beside");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    assert_eq!(stream.read(&mut [0]).expect_err("it waits").kind(), io::ErrorKind::WouldBlock);

    proxy.release();
    stream.set_read_timeout(None).expect("no timeout");
    let mut echoed = [0; 7];
    stream.read_exact(&mut echoed).expect("the echo");
    assert_eq!(&echoed, b"stalled");
}

#[test]
fn carries_nothing_that_was_held_when_it_was_cut() {
    let (proxy, mut stream) = connected();

    proxy.hold();
    stream.write_all(b"held").expect("it is sent");
    proxy.cut_connections();
    proxy.release();

    assert_eq!(read(&mut stream, &mut [0]), 0);
    assert_eq!(echo(&mut connect(&proxy), b"after"), b"after");
}

#[test]
fn a_silent_connection_carries_nothing_and_stays_open() {
    let (proxy, mut stream) = connected();

    proxy.silence_connections();
    stream.write_all(b"silenced").expect("it is sent");

    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let nothing = stream.read(&mut [0]).expect_err("neither an answer nor an end");
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(echo(&mut connect(&proxy), b"after"), b"after");
    proxy.cut_connections();
    assert_eq!(read(&mut stream, &mut [0]), 0);
}

#[test]
fn the_end_of_a_silent_connection_does_not_reach_the_server() {
    let (ended, ends) = std::sync::mpsc::channel();
    static ENDED: Mutex<Option<std::sync::mpsc::Sender<()>>> = Mutex::new(None);
    *ENDED.lock().expect("no panic") = Some(ended);
    let proxy = proxy_of(|stream| {
        io::copy(&mut &stream, &mut &stream)?;
        let sender = ENDED.lock().expect("no panic").clone();
        sender.expect("a receiver").send(()).map_err(io::Error::other)
    });
    let mut stream = connect(&proxy);
    assert_eq!(echo(&mut stream, b"before"), b"before");

    proxy.silence_connections();
    drop(stream);

    assert!(ends.recv_timeout(Duration::from_millis(200)).is_err(), "the server has seen the end");
    assert_eq!(proxy.ports().len(), 1);
    proxy.cut_connections();
    ends.recv_timeout(PATIENCE).expect("the server sees the end");
}

#[test]
fn cuts_silent_connections_and_no_others() {
    let (proxy, mut silent) = connected();
    proxy.silence_connections();
    let mut other = connected_to(&proxy);

    proxy.cut_silent_connections();

    assert_eq!(read(&mut silent, &mut [0]), 0);
    assert_eq!(echo(&mut other, b"after"), b"after");
}

#[test]
fn cut_it_takes_no_connections_until_it_is_mended() {
    let (proxy, mut stream) = connected();

    proxy.cut();

    assert_eq!(echo(&mut stream, b"parted"), b"");
    assert_eq!(echo(&mut connect(&proxy), b"parted"), b"");
    proxy.mend();
    assert_eq!(echo(&mut connect(&proxy), b"mended"), b"mended");
}

#[test]
fn ends_its_connections_when_it_is_dropped() {
    let (proxy, mut stream) = connected();

    drop(proxy);

    assert_eq!(read(&mut stream, &mut [0]), 0);
}

#[test]
fn counts_a_round_trip_when_a_client_sends_something_after_an_answer() {
    let proxy = proxy();
    let mut stream = connect(&proxy);
    assert_eq!(proxy.round_trips(), 0);
    assert_eq!(echo(&mut stream, b"one"), b"one");
    assert_eq!(proxy.round_trips(), 1);
    assert_eq!(echo(&mut stream, b"two"), b"two");
    assert_eq!(echo(&mut connect(&proxy), b"three"), b"three");
    assert_eq!(proxy.round_trips(), 3);
}

#[test]
fn does_not_count_what_a_client_sends_before_the_answer() {
    let proxy = proxy_of(|mut stream| {
        stream.read_exact(&mut [0; 6])?;
        stream.write_all(b"answer")
    });
    let mut stream = connect(&proxy);
    stream.write_all(b"one").expect("it is sent");
    // The proxy has read it, and so reads the other apart from it.
    while proxy.round_trips() == 0 {
        thread::yield_now();
    }

    assert_eq!(echo(&mut stream, b"two"), b"ans");

    assert_eq!(proxy.round_trips(), 1);
}

#[test]
fn delays_answers_until_it_is_told_not_to() {
    let proxy = proxy();
    let mut stream = connect(&proxy);
    let delay = Duration::from_millis(200);

    proxy.delay_answers(delay);
    let begun = Instant::now();
    assert_eq!(echo(&mut stream, b"far"), b"far");
    assert!(begun.elapsed() >= delay);

    proxy.delay_answers(PATIENCE);
    proxy.delay_answers(Duration::ZERO);
    assert_eq!(echo(&mut stream, b"near"), b"near");
}

#[test]
fn leads_new_connections_to_another_server_and_not_those_that_there_are() {
    let proxy = proxy();
    let mut first = connect(&proxy);
    assert_eq!(echo(&mut first, b"one"), b"one");
    let silent = proxy_of(|mut stream| stream.write_all(b"other"));
    proxy.lead_to(silent.address());
    let mut second = connect(&proxy);
    let mut said = [0; 5];
    second.read_exact(&mut said).expect("it says something");
    assert_eq!((&said, echo(&mut first, b"two")), (b"other", b"two".to_vec()));
}
