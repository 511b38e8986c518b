//! The time and the memory of messages that are made to cost as much as possible, compared with a plain message.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use hostile_messages::{Shape, descriptor, hostile, json, plain};
use protobuf_canonical::{Canonical, CanonicalErrorKind, json::Json};

use crate::{
    Error,
    context::Context,
    format,
    section::{Bound, Goal, Section, Table},
    spread::Spread,
};

/// The default limit of a request, in bytes.
const SIZE: usize = 4 << 20;

const SMOKE_SIZE: usize = 64 << 10;

const ROUNDS: usize = 7;

const TEXT: &str = "\
A client chooses the bytes that the layer hashes. Each of these messages has about 4 MiB, the default limit, and is made to cost as \
much time or memory as possible. They are compared with a plain message of that size, a list of small messages that is not \
canonical, as prost's messages with maps are not. Each message takes turns with it. The memory is the peak of what is allocated for the hash, the message itself, and once more \
the message, as the handler gets it. A message that would cost too much is refused; the table says so. The same is measured for \
JSON, which is read into a message before it is hashed.";

/// One message, compared with the plain one.
struct Measurement {
    name: &'static str,
    milliseconds: Spread,
    /// Ratios to the plain message.
    time: Spread,
    memory: f64,
    is_refused: bool,
}

/// Measures each shape against the plain message.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let size = if context.smoke { SMOKE_SIZE } else { SIZE };
    let (canonical, descriptor) = (Canonical::new(&descriptor()), descriptor());
    let hash = |message: &[u8]| match canonical.hash(message) {
        Ok(hash) => {
            black_box(hash);
            Ok(false)
        }
        Err(error) if error.kind() == CanonicalErrorKind::TooCostly => Ok(true),
        Err(error) => Err(Error::from(error)),
    };
    let [in_order, plain_one] = plain(size);
    let others: Vec<_> = std::iter::once(in_order).chain(hostile(size)).collect();
    let hashed = compare(context, &plain_one, &others, hash)?;

    let reader = Json::new(true);
    let read = |message: &[u8]| Ok::<_, Error>(black_box(reader.decode(&descriptor, message)).is_err());
    let shapes = json(size);
    let (plain_one, others) = shapes.split_first().ok_or("no shapes")?;
    let parsed = compare(context, plain_one, others, read)?;

    let goals =
        [("hashed", &hashed), ("read from JSON", &parsed)].map(|(what, measurements)| goals(what, measurements));
    Ok(Section {
        title: "Hostile messages",
        text: TEXT.to_owned(),
        summary: None,
        tables: vec![table("hashed", &hashed), table("read from JSON", &parsed)],
        goals: goals.into_iter().flatten().collect(),
    })
}

/// Runs each message and the plain one in turns. `run` returns whether the message is refused.
fn compare(
    context: &Context,
    plain: &Shape,
    others: &[Shape],
    run: impl Fn(&[u8]) -> Result<bool, Error>,
) -> Result<Vec<Measurement>, Error> {
    let time = |message: &[u8]| {
        let mut taken = Ok(Duration::ZERO);
        allocation_counter::opt_out(|| {
            let start = Instant::now();
            taken = run(message).map(|_| start.elapsed());
        });
        taken.map(|taken| taken.as_secs_f64() * 1e3)
    };
    let memory = |message: &[u8]| {
        let mut refused = Ok(false);
        let info = allocation_counter::measure(|| refused = run(message));
        refused.map(|refused| (info.bytes_max as f64 + 2.0 * message.len() as f64, refused))
    };
    let (plain_memory, _) = memory(&plain.message)?;
    let mut measurements = Vec::new();
    for shape in others {
        context.progress(shape.name);
        let (mut figures, mut plain_figures) = (Vec::new(), Vec::new());
        for _ in 0..context.rounds(ROUNDS) {
            plain_figures.push(time(&plain.message)?);
            figures.push(time(&shape.message)?);
        }
        let (bytes, is_refused) = memory(&shape.message)?;
        measurements.push(Measurement {
            name: shape.name,
            milliseconds: Spread::of(figures.iter().copied()),
            time: Spread::of_ratios(&figures, &plain_figures),
            memory: bytes / plain_memory,
            is_refused,
        });
    }
    Ok(measurements)
}

fn table(what: &str, measurements: &[Measurement]) -> Table {
    let row = |measurement: &Measurement| {
        let refused = if measurement.is_refused { "refused" } else { "" };
        vec![
            measurement.name.to_owned(),
            format::spread(measurement.milliseconds, 2),
            format::spread(measurement.time, 2),
            format::figure(measurement.memory),
            refused.to_owned(),
        ]
    };
    let columns = ["message", "ms", "× the time of the plain one", "× its memory", ""];
    Table {
        caption: format!("Messages of 4 MiB, {what}"),
        columns: columns.map(str::to_owned).to_vec(),
        rows: measurements.iter().map(row).collect(),
    }
}

fn goals(what: &str, measurements: &[Measurement]) -> [Goal; 2] {
    let longest = measurements.iter().map(|it| it.time).max_by(|a, b| a.median.total_cmp(&b.median));
    let largest = measurements.iter().map(|it| it.memory).max_by(f64::total_cmp);
    let goal = |measure: &str, bound, figure| {
        let measure = format!("{measure} of the most costly message, {what}");
        Goal::new(measure, Bound::AtMost(bound), figure, "× that of a plain message")
    };
    [
        goal("time", 10.0, longest.unwrap_or(Spread::of([f64::NAN]))),
        goal("memory", 3.0, Spread::of([largest.unwrap_or(f64::NAN)])),
    ]
}
