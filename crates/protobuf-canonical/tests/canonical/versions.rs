//! Two servers with different versions of a schema, on random schemas, changes and messages.

use std::thread;

use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use protobuf_canonical::{Canonical, RequestHashes};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::{
    evolution::Schema,
    random::{self, Message},
};

/// The pairs of schemas, and the messages for each pair: 100,000 triples.
const PAIRS: u64 = 1_000;
const MESSAGES: u64 = 100;

/// A server with one version of the schema.
struct Server {
    descriptor: MessageDescriptor,
    canonical: Canonical,
}

impl Server {
    fn new(schema: &Schema) -> Self {
        let descriptor = schema.descriptor();
        Self { canonical: Canonical::new(&descriptor), descriptor }
    }

    fn hashes(&self, message: &[u8]) -> RequestHashes {
        self.canonical.hashes(message).expect("a valid message")
    }

    /// Returns whether the two are one message to this server, with its unknown fields.
    fn reads_alike(&self, one: &[u8], other: &[u8]) -> bool {
        let [one, other] = [one, other]
            .map(|message| DynamicMessage::decode(self.descriptor.clone(), message).expect("a valid message"));
        messages_alike(&one, &other)
    }

    /// Returns whether this server keeps all that the other one reads in the message. It does not if a number is too wide for
    /// the type of its field, if a field without presence holds its default, or if two members of a oneof are set.
    fn keeps_all(&self, message: &[u8], other: &Self) -> bool {
        other.reads_alike(message, &self.canonical.encode(message).expect("a valid message"))
    }
}

fn messages_alike(one: &DynamicMessage, other: &DynamicMessage) -> bool {
    let fields = |message: &DynamicMessage| message.fields().count();
    fields(one) == fields(other)
        && one.fields().zip(other.fields()).all(|((field, one), (also, other))| field == also && alike(one, other))
        && one.unknown_fields().eq(other.unknown_fields())
}

fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Message(one), Value::Message(other)) => messages_alike(one, other),
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| alike(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| alike(one, other)))
        }
        _ => one == other,
    }
}

/// How often a changed message was taken for the same, and how many messages were not canonical to a server.
#[derive(Default)]
struct Counts {
    taken_for_the_same: u64,
    rewritten: u64,
    told_apart: u64,
}

#[test]
fn a_retry_is_recognised_whatever_version_of_the_schema_a_server_knows() {
    let threads = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let counts = thread::scope(|scope| {
        let check = |thread| (thread..PAIRS).step_by(threads as usize).map(check_pair).collect::<Vec<_>>();
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || check(thread))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no failure")).reduce(Counts::plus)
    });
    let counts = counts.expect("pairs");
    // The schemas and messages are not all trivial.
    assert!(counts.rewritten > PAIRS * MESSAGES / 2, "{}", counts.rewritten);
    assert!(counts.told_apart > PAIRS * MESSAGES, "{}", counts.told_apart);
    assert!(counts.taken_for_the_same < counts.told_apart / 40, "{}", counts.taken_for_the_same);
}

/// Checks the messages of one pair of schemas, in both orders of deployment.
fn check_pair(seed: u64) -> Counts {
    let mut rng = StdRng::seed_from_u64(seed);
    let schema = Schema::random(&mut rng);
    let servers = [Server::new(&schema), Server::new(&schema.changed(&mut rng))];
    let mut counts = Counts::default();
    for number in 0..MESSAGES {
        let case = format!("seed {seed}, message {number}");
        let client = &servers[rng.random_range(0..2)];
        let depth = rng.random_range(0..3);
        let message = random::message(&client.descriptor, depth, &mut rng);
        let encode = |message: &Message, rng: &mut StdRng| match rng.random_bool(0.5) {
            true => message.encode(),
            false => message.encode_oddly(rng),
        };
        let sent = encode(&message, &mut rng);
        let mut changed = message;
        let other = match rng.random_range(0..6) {
            0 => changed.encode_oddly(&mut rng),
            server @ 1..3 => servers[server - 1].canonical.encode(&sent).expect("a valid message").into_owned(),
            _ => {
                random::mutate(&mut changed, &mut rng);
                encode(&changed, &mut rng)
            }
        };
        let hashes = servers.each_ref().map(|server| server.hashes(&sent));
        let again = "a retry with the same bytes is refused";
        assert!(hashes[0].same_request(&hashes[1]) && hashes[1].same_request(&hashes[0]), "{again}: {case}");
        for ([first, second], recorded) in
            [[0, 1], [1, 0]].map(|order| order.map(|index| &servers[index])).into_iter().zip(hashes)
        {
            counts.rewritten += u64::from(recorded.as_arrived().is_some());
            counts = counts.plus(check_other([first, second], &recorded, &sent, &other, &case));
        }
    }
    counts
}

/// Checks that bytes are not taken for a retry if they are another message.
fn check_other(
    [first, second]: [&Server; 2],
    recorded: &RequestHashes,
    sent: &[u8],
    other: &[u8],
    case: &str,
) -> Counts {
    if !second.hashes(other).same_request(recorded) {
        return Counts { told_apart: 1, ..Counts::default() };
    }
    let alike = [first, second].map(|server| server.reads_alike(sent, other));
    let case = format!("{case}: {} and {}", hex::encode(sent), hex::encode(other));
    assert!(alike.contains(&true), "another message to both servers is taken for a retry: {case}");
    let lossless =
        [sent, other].iter().all(|message| first.keeps_all(message, second) && second.keeps_all(message, first));
    assert!(!lossless || alike == [true; 2], "another message to one of the servers is taken for a retry: {case}");
    Counts { taken_for_the_same: u64::from(alike != [true; 2]), ..Counts::default() }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            taken_for_the_same: self.taken_for_the_same + other.taken_for_the_same,
            rewritten: self.rewritten + other.rewritten,
            told_apart: self.told_apart + other.told_apart,
        }
    }
}

/// The one kind of message that a server accepts although another server would tell it apart: the first server cannot.
#[test]
fn two_messages_that_one_of_the_servers_cannot_tell_apart_are_the_same() {
    use prost_reflect::DescriptorPool;

    let [narrow, wide] = ["google.protobuf.Int32Value", "google.protobuf.Int64Value"]
        .map(|name| Canonical::new(&DescriptorPool::global().get_message_by_name(name).expect("a known message")));
    let (excess, fits) = (b"\x08\x85\x80\x80\x80\x10", b"\x08\x05");
    let recorded = narrow.hashes(excess).expect("a message");
    assert!(wide.hashes(fits).expect("a message").same_request(&recorded), "5 is what the first server did");
    let recorded = wide.hashes(excess).expect("a message");
    assert!(!wide.hashes(fits).expect("a message").same_request(&recorded), "the same server knows both");
}
