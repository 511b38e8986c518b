//! The simulation of some seeds.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use simulation::{
    plan::Plan,
    run::run,
    swarm::{Bounds, swarm},
    world::{IS_REPEATABLE, Keeps},
};

/// The last of the seeds that are compared.
const LAST: u64 = 150;

/// A seed has to give the same run in another process, whose memory has different addresses, and whatever seeds ran before it.
#[test]
#[expect(clippy::print_stderr, reason = "a test that did not run says so")]
fn are_the_same_wherever_they_run() {
    if !IS_REPEATABLE {
        eprintln!("SKIPPED are_the_same_wherever_they_run: not on this system");
        return;
    }
    let begin = |first: u64| {
        let (first, count) = (first.to_string(), (LAST + 1 - first).to_string());
        let mut program = Command::new(env!("CARGO_BIN_EXE_simulation"));
        program.args(["--digests", "--seed", &first, "--seeds", &count, "--operations", "15"]).stdout(Stdio::piped());
        program.spawn().expect("the program")
    };
    let [all, again, some, few] = [1, 1, 60, 119].map(begin).map(|program| {
        let output = program.wait_with_output().expect("the program");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    });
    for part in [again, some, few] {
        let different: BTreeSet<_> =
            all.lines().rev().zip(part.lines().rev()).filter(|(one, other)| one != other).collect();
        assert!(different.is_empty() && !part.is_empty(), "{different:?}");
    }
    let distinct: BTreeSet<_> = all.lines().map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(distinct.len() as u64, LAST, "two seeds are the same");
}

/// Whatever has broken a promise once, or breaks one when a guard is switched off, is kept as a plan, since new draws change what a seed means.
/// None breaks one now, and each is read as it was written.
#[test]
fn kept_as_plans_break_no_promise() {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut count = 0;
    for file in fs::read_dir(plans).expect("the plans") {
        let file = file.expect("a plan").path();
        let text = fs::read_to_string(&file).expect("a plan");
        let plan = Plan::from_text(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(plan.to_text(), text.trim_end(), "{}", file.display());
        let violations = run(plan, Keeps::Nothing).violations;
        assert!(violations.is_empty(), "{}: {violations:#?}", file.display());
        count += 1;
    }
    assert!(count > 0);
}

/// Runs as many seeds as fit into 15 seconds.
#[test]
fn keep_the_promises() {
    let time = Duration::from_secs(15);
    let bounds = Bounds { seeds: 1..1_000_000, operations: None, calls: u64::MAX, time, failures: 1, threads: 2 };
    let outcome = swarm(&bounds, |_, _| {});
    assert!(outcome.calls > 0 && outcome.failures.is_empty(), "{:#?}", outcome.failures);
}

/// Each mutant of the list can still be made: its file still has the text that the mutant replaces. The page says how many the simulation has,
/// and how many of them are found.
#[test]
fn have_mutants_that_can_be_made() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let read = |path: &str| fs::read_to_string(top.join(path)).expect(path);
    let list: toml::Table = read("simulation/mutants.toml").parse().expect("TOML");
    let mutants = list["mutant"].as_array().expect("mutants");
    let simulated = mutants.iter().filter(|mutant| mutant["file"].as_str().is_some_and(|file| file.ends_with(".rs")));
    let found = simulated.clone().filter(|mutant| mutant.get("because").is_none());
    assert!(mutants.iter().all(|mutant| mutant.get("gate").is_none() || mutant.get("because").is_none()));
    let guards = "[guards](../simulation/mutants.toml)";
    let says = format!("of {} {guards} that are switched off, it finds {}.", simulated.count(), found.count());
    assert!(read("docs/guarantees.md").contains(&says), "{says}");
    for mutant in mutants {
        let text = |field: &str| mutant[field].as_str().expect("a text");
        let file = read(text("file"));
        assert_eq!(file.matches(text("find")).count(), 1, "{}: the text that it replaces", text("name"));
    }
}
