//! The simulation as a program.
#![expect(clippy::print_stdout, reason = "it says what happens")]

use std::{
    collections::BTreeSet, env, fs, path::PathBuf, process::ExitCode, thread::available_parallelism, time::Duration,
};

use clap::Parser;
use simulation::{
    panics::hush,
    plan::{Omitted, Plan},
    run::run,
    shrink::shrink,
    sometimes::missing,
    swarm::{Bounds, swarm},
    world::Keeps,
};

/// Runs the product's own code on a simulated clock, network and database, while everything fails.
#[derive(Debug, Parser)]
#[command(version = None)]
struct Args {
    /// The first seed, or the only one with --story.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds to run at most.
    #[arg(long, default_value_t = u64::MAX)]
    seeds: u64,
    /// Stops after as many calls, with retries.
    #[arg(long, default_value_t = 100_000)]
    calls: u64,
    /// Fails if fewer calls were made in the time.
    #[arg(long, default_value_t = 0)]
    least: u64,
    /// Stops after as many seconds.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Stops after as many seeds that break a promise.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// The operations of one seed. Without it, each seed draws how many.
    #[arg(long)]
    operations: Option<usize>,
    /// Tells what happens in the run of one seed, reduced to what breaks the promise if one is broken.
    #[arg(long)]
    story: bool,
    /// Fails if something has never happened that has to happen somewhere in a million calls.
    #[arg(long)]
    complete: bool,
    /// Prints how often everything has happened.
    #[arg(long)]
    counts: bool,
    /// Prints a number for each seed, which is equal for equal runs.
    #[arg(long)]
    digests: bool,
    /// With --story: tells of the whole run.
    #[arg(long)]
    whole: bool,
    /// Tells the story of the plan in a file, instead of a seed's.
    #[arg(long)]
    plan: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    hush();
    if args.digests {
        for seed in args.seed..args.seed.saturating_add(args.seeds) {
            println!("{seed} {:016x}", run(Plan::new(seed, args.operations), Keeps::Digest).digest);
        }
        return ExitCode::SUCCESS;
    }
    let is_kept = if args.story || args.plan.is_some() { story(&args) } else { many(&args) };
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(args: &Args) -> bool {
    let bounds = Bounds {
        seeds: args.seed..args.seed.saturating_add(args.seeds),
        operations: args.operations,
        calls: args.calls,
        time: Duration::from_secs(args.seconds),
        failures: args.failures.max(1),
        threads: available_parallelism().map_or(1, Into::into),
    };
    let began = std::time::Instant::now();
    let outcome = swarm(&bounds, |seeds, calls| {
        if seeds % 500 == 0 {
            println!(
                "{seeds} seeds, {calls} calls, {:.0} calls a second",
                calls as f64 / began.elapsed().as_secs_f64()
            );
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} seeds, {} calls in {seconds:.1} s: {:.0} a second",
        outcome.seeds,
        outcome.calls,
        outcome.calls as f64 / seconds
    );
    for (excuse, uses) in &outcome.excuses {
        println!("excused {uses:>9} times: {excuse}");
    }
    if args.counts {
        for (what, count) in &outcome.counts {
            println!("happened {count:>9} times: {what}");
        }
    }
    let missing = if args.complete { missing(&outcome.counts) } else { Vec::new() };
    if !missing.is_empty() {
        println!("never happened, in {} calls: {}", outcome.calls, missing.join("; "));
    }
    for (seed, violations) in &outcome.failures {
        println!("\nseed {seed} breaks a promise:");
        for violation in violations {
            println!("  {violation}");
        }
        let operations = args.operations.map(|operations| format!("--operations {operations} ")).unwrap_or_default();
        println!("cargo run -p simulation --release -- --seed {seed} {operations}--story");
    }
    if outcome.failures.is_empty() && outcome.calls < args.least {
        println!("too slow: {} calls were wanted", args.least);
    }
    outcome.failures.is_empty() && missing.is_empty() && outcome.calls >= args.least
}

fn story(args: &Args) -> bool {
    let plan = match &args.plan {
        Some(file) => Plan::from_text(&fs::read_to_string(file).expect("a file")).expect("a plan"),
        None => Plan::new(args.seed, args.operations),
    };
    let report = run(plan.clone(), Keeps::Nothing);
    let omitted = match report.violations.first().filter(|_| !args.whole) {
        Some(violation) => shrink(&plan, violation.promise, |omitted: &Omitted| {
            let Omitted { operations, faults, repeats, slow_work } = omitted;
            let [operations, faults, repeats, slow] = [operations, faults, repeats, slow_work].map(BTreeSet::len);
            println!(
                "without {faults} faults, {operations} operations, the repeats of {repeats} and the slow work of {slow}"
            );
        }),
        None => Omitted::default(),
    };
    let plan = plan.without(&omitted);
    let report = run(plan.clone(), Keeps::Lines);
    println!("{:#?}\n{:#?}\n{:#?}\n", plan.settings, plan.operations, plan.faults);
    for line in &report.lines {
        println!("{line}");
    }
    for violation in &report.violations {
        println!("\n{violation}");
    }
    if !args.whole && args.plan.is_none() && !report.violations.is_empty() {
        let file = env::temp_dir().join(format!("simulation-{}.json", args.seed));
        fs::write(&file, plan.to_text()).expect("a folder that can be written");
        println!("\ncargo run -p simulation --release -- --plan {}", file.display());
    }
    if report.violations.is_empty() {
        println!("\nno promise was broken");
    }
    report.violations.is_empty()
}
