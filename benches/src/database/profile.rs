//! Profiles PostgreSQL's processes and this one by `perf`, to show which functions take a contender's time.

use std::{
    collections::HashMap,
    fmt::Write as _,
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::process::Command;

use super::{
    load::{Client, Figures, Load},
    usage::ServerProcesses,
};
use crate::{Error, context::Context, format};

/// The time that is profiled.
const TIME: Duration = Duration::from_secs(2);

/// The functions that are listed of each side.
const LISTED: usize = 8;

/// The samples per second of each processor.
const FREQUENCY: &str = "1999";

/// The profile of a load.
#[derive(Debug)]
pub(super) struct Profile {
    figures: Figures,
    /// The part of all processors' time that both sides take.
    busy: f64,
    functions: Vec<Function>,
}

/// A function, and its part of the samples.
#[derive(Clone, Debug, PartialEq)]
struct Function {
    /// Whether it runs in one of PostgreSQL's processes.
    of_server: bool,
    /// Whether it is part of the kernel.
    in_kernel: bool,
    name: String,
    /// In percent.
    part: f64,
}

impl Profile {
    /// Profiles this load while it runs.
    pub(super) async fn of(
        context: &Context,
        load: &Load,
        client: &impl Client,
        server: &ServerProcesses,
    ) -> Result<Self, Error> {
        let time = context.time(TIME);
        // Opens the connections, whose processes are then known.
        load.run_for(time / 8, client, server).await?;
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("perf.data");
        let mut processes: Vec<_> = server.ids()?.iter().map(ToString::to_string).collect();
        processes.push(std::process::id().to_string());
        let recording = Command::new("perf")
            .args(["record", "--quiet", "--event=cpu-clock", "--freq", FREQUENCY])
            .arg(format!("--pid={}", processes.join(",")))
            .arg("--output")
            .arg(&data)
            .args(["--", "sleep", &time.as_secs_f64().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("perf: {error}"))?;
        let started = Instant::now();
        let figures = load.run_for(time + time / 4, client, server).await?;
        let elapsed = started.elapsed();
        let recorded = recording.wait_with_output().await?;
        if !recorded.status.success() {
            return Err(format!("perf record: {}", String::from_utf8_lossy(&recorded.stderr).trim()).into());
        }
        let report = Command::new("perf")
            .args(["report", "--quiet", "--stdio", "--no-children", "--sort=comm,symbol", "--field-separator=\t"])
            .arg("--input")
            .arg(&data)
            .output()
            .await?;
        if !report.status.success() {
            return Err(format!("perf report: {}", String::from_utf8_lossy(&report.stderr).trim()).into());
        }
        let processors = std::thread::available_parallelism()?.get() as f64;
        let spent = (figures.own_processor + figures.server_processor).as_secs_f64() * figures.calls as f64;
        let functions = functions(&String::from_utf8_lossy(&report.stdout));
        Ok(Self { figures, busy: spent / (elapsed.as_secs_f64() * processors), functions })
    }

    /// Describes it in Markdown.
    pub(super) fn describe(&self) -> String {
        let Figures { own_processor, server_processor, .. } = self.figures;
        let time = |time: Duration| format::duration(time.as_secs_f64());
        let mut text = format!(
            "a profile shows the processors {} % busy: per call, {} in PostgreSQL and {} in the process that calls and answers.",
            format::with_decimals(100.0 * self.busy, 0),
            time(server_processor),
            time(own_processor),
        );
        for (of_server, name) in [(true, "PostgreSQL"), (false, "This process")] {
            let functions: Vec<_> = self.functions.iter().filter(|function| function.of_server == of_server).collect();
            let all: f64 = functions.iter().map(|function| function.part).sum();
            if all == 0.0 {
                continue;
            }
            let kernel: f64 = functions.iter().filter(|it| it.in_kernel).map(|it| it.part).sum();
            // The sum of nothing is -0.
            let share = |part: f64| format::with_decimals((100.0 * part / all).abs(), 1);
            let own = functions.iter().filter(|function| !function.in_kernel).take(LISTED);
            let own: Vec<_> = own.map(|it| format!("`{}` {}", it.name, share(it.part))).collect();
            // Writing to a string does not fail.
            let _ = write!(text, " {name}, in % of its time: the kernel {}, {}.", share(kernel), own.join(", "));
        }
        text
    }
}

/// Parses lines such as `12.30%<tab>postgres<tab>[.] AllocSetAlloc`. The functions come with the greatest part first, each once
/// for each side.
fn functions(report: &str) -> Vec<Function> {
    let mut parts: HashMap<(bool, bool, String), f64> = HashMap::new();
    for line in report.lines() {
        let mut cells = line.split('\t').map(str::trim);
        let (Some(part), Some(process), Some(symbol)) = (cells.next(), cells.next(), cells.next()) else { continue };
        let Ok(part) = part.trim_end_matches('%').parse::<f64>() else { continue };
        let (in_kernel, name) = match symbol.split_once(' ') {
            Some(("[k]", name)) => (true, name),
            Some((_, name)) => (false, name),
            None => continue,
        };
        *parts.entry((process.starts_with("postgres"), in_kernel, short(name))).or_default() += part;
    }
    let function = |((of_server, in_kernel, name), part)| Function { of_server, in_kernel, name, part };
    let mut functions: Vec<_> = parts.into_iter().map(function).collect();
    functions.sort_by(|one, other| other.part.total_cmp(&one.part).then_with(|| one.name.cmp(&other.name)));
    functions
}

/// Shortens the name of a function: no hash of the compiler, no more than 60 characters, none that Markdown would read.
fn short(name: &str) -> String {
    let name = name.trim();
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    if name.starts_with("0x") {
        return "(no symbol)".to_owned();
    }
    name.chars().filter(|c| *c != '`').take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_report_of_perf() {
        let report = "\n    12.50%\tpostgres       \t[.] AllocSetAlloc\n     7.25%\ttokio-rt-worker\t[.] a::b::h0123456789abcdef\n     \
                      3.00%\tpostgres\t[k] do_syscall\n     2.50%\tbenchmarks\t[.] a::b::hfedcba9876543210\n";
        let function =
            |of_server, in_kernel, name: &str, part| Function { of_server, in_kernel, name: name.to_owned(), part };
        assert_eq!(
            functions(report),
            [
                function(true, false, "AllocSetAlloc", 12.5),
                function(false, false, "a::b", 9.75),
                function(true, true, "do_syscall", 3.0),
            ]
        );
    }

    #[test]
    fn a_profile_says_where_the_time_of_each_side_goes() {
        let report = "60%\tpostgres\t[.] ExecProcNode\n20%\tpostgres\t[k] tcp_sendmsg\n20%\tbenchmarks\t[.] h2\n";
        let figures = Figures {
            calls: 10,
            throughput: 1.0,
            p50: Duration::ZERO,
            p99: Duration::ZERO,
            own_processor: Duration::from_micros(20),
            server_processor: Duration::from_micros(80),
        };
        let profile = Profile { figures, busy: 0.5, functions: functions(report) };
        assert_eq!(
            profile.describe(),
            "a profile shows the processors 50 % busy: per call, 80 µs in PostgreSQL and 20 µs in the process that calls and \
             answers. PostgreSQL, in % of its time: the kernel 25.0, `ExecProcNode` 75.0. This process, in % of its time: the kernel 0.0, \
             `h2` 100.0."
        );
    }
}
