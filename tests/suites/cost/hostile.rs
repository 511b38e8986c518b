//! The memory and the time that hostile messages take.

use hostile_messages::{Shape, descriptor, hostile, json, plain};
use protobuf_canonical::{Canonical, CanonicalErrorKind, json::Json};

/// Large enough that the constant allowance for messages of any size does not count.
const SIZE: usize = 1 << 20;

/// The most that a hostile message may take, as a multiple of a plain one: of its memory, and of the processor's time, in proportion to
/// which work has to grow.
const MEMORY: f64 = 3.0;
const TIME: f64 = 30.0;

/// The processor's time that this thread has had, in nanoseconds, whatever else the machine does.
fn processor_time() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says it");
    times.split(' ').next().and_then(|time| time.parse().ok()).expect("a number")
}

/// The peak of the memory of reading a message, in sizes of the message, of which `copies` are there beside it; and the time.
fn cost(shape: &Shape, copies: f64, read: impl FnOnce(&[u8])) -> [f64; 2] {
    let (begun, size) = (processor_time(), shape.message.len() as f64);
    let info = allocation_counter::measure(|| read(&shape.message));
    [info.bytes_max as f64 / size + copies, (processor_time() - begun) as f64]
}

fn assert_within(what: &str, plain: [f64; 2], hostile: impl Iterator<Item = (&'static str, [f64; 2])>) {
    let ratios = hostile.map(|(name, [memory, time])| (name, memory / plain[0], time / plain[1]));
    let over: Vec<_> = ratios.filter(|(_, memory, time)| *memory > MEMORY || *time > TIME).collect();
    assert!(over.is_empty(), "{what}: × the memory and × the time of a plain message, which are {plain:?}: {over:.1?}");
}

/// The message as it arrived, once more as it is handed to the handler, and what the hash takes.
#[test]
fn messages_take_little_more_than_plain_ones() {
    let canonical = Canonical::new(&descriptor());
    let hash = |shape: &Shape| {
        cost(shape, 2.0, |message| {
            if let Err(error) = canonical.hashes(message) {
                assert_eq!(error.kind(), CanonicalErrorKind::TooCostly, "{}", shape.name);
            }
        })
    };
    // Memory is compared with the message that needs less, and time with the one that is not canonical either.
    let [[memory, _], [_, time]] = plain(SIZE).each_ref().map(hash);
    let hostile = hostile(SIZE);
    assert_within("hashed", [memory, time], hostile.iter().map(|shape| (shape.name, hash(shape))));
}

/// The text, and what it is read into.
#[test]
fn messages_in_json_take_little_more_than_plain_ones() {
    for ignore_unknown_fields in [false, true] {
        let (reader, shapes) = (Json::new(ignore_unknown_fields), json(SIZE));
        let read = |shape: &Shape| cost(shape, 1.0, |message| drop(reader.decode(&descriptor(), message)));
        let (plain, hostile) = shapes.split_first().expect("a plain one is first");
        assert_within("read from JSON", read(plain), hostile.iter().map(|shape| (shape.name, read(shape))));
    }
}
