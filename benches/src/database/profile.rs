//! Profiles PostgreSQL's processes and this one by `perf`, to show which functions take a contender's time.

use std::{collections::HashMap, fmt::Write as _, process::Stdio, time::Duration};

use tokio::process::Command;

use super::{load::Figures, turns::Entrant, usage::ServerProcesses};
use crate::{Error, context::Context, format};

/// The time that is profiled.
const TIME: Duration = Duration::from_secs(2);

/// The functions that are listed of each side.
const LISTED: usize = 8;

/// A function, and its part of the samples.
#[derive(Debug, PartialEq)]
struct Function {
    /// Whether it runs in one of PostgreSQL's processes.
    of_server: bool,
    in_kernel: bool,
    name: String,
    /// In percent.
    part: f64,
}

/// Profiles an entrant while it runs, and says in Markdown where its time goes.
pub(super) async fn of(context: &Context, entrant: &Entrant, server: &ServerProcesses) -> Result<String, Error> {
    let (time, Entrant { client, load, .. }) = (context.time(TIME), entrant);
    // Opens the connections, whose processes are then known.
    load.run_for(time / 8, client, server).await?;
    let directory = tempfile::tempdir()?;
    let mut processes: Vec<_> = server.ids()?.iter().map(ToString::to_string).collect();
    processes.push(std::process::id().to_string());
    let recording = Command::new("perf")
        .current_dir(&directory)
        .args(["record", "--quiet", "--event=cpu-clock", "--freq=1999", "--pid", &processes.join(",")])
        .args(["--", "sleep", &time.as_secs_f64().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let figures = load.run_for(time + time / 4, client, server).await?;
    let recorded = recording.wait_with_output().await?;
    if !recorded.status.success() {
        return Err(String::from_utf8_lossy(&recorded.stderr).trim().into());
    }
    let report = Command::new("perf")
        .current_dir(&directory)
        .args(["report", "--quiet", "--stdio", "--no-children", "--sort=comm,symbol", "--field-separator=\t"])
        .output()
        .await?;
    if !report.status.success() {
        return Err(String::from_utf8_lossy(&report.stderr).trim().into());
    }
    let processors = std::thread::available_parallelism()?.get() as f64;
    Ok(describe(figures, processors, &functions(&String::from_utf8_lossy(&report.stdout))))
}

fn describe(figures: Figures, processors: f64, functions: &[Function]) -> String {
    let [server, own] = [figures.server_processor, figures.own_processor].map(|time| time.as_secs_f64());
    let mut text = format!(
        "a profile shows the processors {} % busy: per call, {} in PostgreSQL and {} in the process that calls and answers.",
        format::with_decimals(100.0 * figures.throughput * (server + own) / processors, 0),
        format::duration(server),
        format::duration(own),
    );
    for (of_server, name) in [(true, "PostgreSQL"), (false, "This process")] {
        let (kernel, own): (Vec<_>, Vec<_>) = functions
            .iter()
            .filter(|function| function.of_server == of_server)
            .partition(|function| function.in_kernel);
        let sum = |functions: &[&Function]| functions.iter().fold(0.0, |sum, function| sum + function.part);
        let all = sum(&kernel) + sum(&own);
        if all > 0.0 {
            let share = |part: f64| format::with_decimals(100.0 * part / all, 1);
            let listed: Vec<_> =
                own.iter().take(LISTED).map(|it| format!("`{}` {}", it.name, share(it.part))).collect();
            let (kernel, listed) = (share(sum(&kernel)), listed.join(", "));
            // Writing to a string does not fail.
            let _ = write!(text, " {name}, in % of its time: the kernel {kernel}, {listed}.");
        }
    }
    text
}

/// Parses lines such as `12.30%<tab>postgres<tab>[.] AllocSetAlloc`. The functions come with the greatest part first, each once
/// for each side.
fn functions(report: &str) -> Vec<Function> {
    let mut parts: HashMap<_, f64> = HashMap::new();
    for line in report.lines() {
        let mut cells = line.split('\t').map(str::trim);
        let (Some(part), Some(process), Some(symbol)) = (cells.next(), cells.next(), cells.next()) else { continue };
        let (Ok(part), Some((place, name))) = (part.trim_end_matches('%').parse::<f64>(), symbol.split_once(' '))
        else {
            continue;
        };
        *parts.entry((process.starts_with("postgres"), place == "[k]", short(name))).or_default() += part;
    }
    let function = |((of_server, in_kernel, name), part)| Function { of_server, in_kernel, name, part };
    let mut functions: Vec<_> = parts.into_iter().map(function).collect();
    functions.sort_by(|one, other| other.part.total_cmp(&one.part).then_with(|| one.name.cmp(&other.name)));
    functions
}

/// Shortens the name of a function: no hash of the compiler, no more than 60 characters, none that Markdown would read.
fn short(name: &str) -> String {
    let name = name.trim();
    let name = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16).map_or(name, |(name, _)| name);
    let name = if name.starts_with("0x") { "(no symbol)" } else { name };
    name.chars().filter(|c| *c != '`').take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_where_the_time_of_each_side_goes() {
        let report = "\n60%\tpostgres   \t[.] ExecProcNode\n20%\tpostgres\t[k] tcp_sendmsg\n10%\ttokio-rt-worker\t[.] \
                      a::b::h0123456789abcdef\n2%\tbenchmarks\t[.] a::b::hfedcba9876543210\n8%\tbenchmarks\t[.] 0x12\n";
        let figures = Figures {
            throughput: 10_000.0,
            p50: Duration::ZERO,
            p99: Duration::ZERO,
            own_processor: Duration::from_micros(20),
            server_processor: Duration::from_micros(80),
        };
        assert_eq!(
            describe(figures, 2.0, &functions(report)),
            "a profile shows the processors 50 % busy: per call, 80 µs in PostgreSQL and 20 µs in the process that calls and \
             answers. PostgreSQL, in % of its time: the kernel 25.0, `ExecProcNode` 75.0. This process, in % of its time: the kernel 0.0, \
             `a::b` 60.0, `(no symbol)` 40.0."
        );
    }
}
