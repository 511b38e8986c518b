//! Switches guards of the product's code off, one at a time, and looks whether the simulation finds out, or suites on PostgreSQL for guards in
//! SQL: `mutants.toml` lists them.
#![expect(clippy::print_stdout, reason = "it says what happens")]

mod mutant;
mod suites;
mod verdict;

use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use clap::Parser;
use serde::Deserialize;

use crate::{mutant::Mutant, suites::Suites, verdict::Verdict};

/// Switches guards off, one at a time, in a copy of the repository, and runs the simulation there, or suites on PostgreSQL. Fails if one of them
/// is not found, and the list does not say why.
#[derive(Debug, Parser)]
#[command(version = None)]
struct Args {
    /// The mutants, by their names; all if there are none.
    names: Vec<String>,
    /// Only those of the gate.
    #[arg(long)]
    gate: bool,
    /// Those in SQL, which suites on PostgreSQL find, instead of those in Rust.
    #[arg(long)]
    sql: bool,
    /// Each runs the first seeds, as many as make so many calls without a mutant.
    #[arg(long, default_value_t = 20_000)]
    calls: u64,
}

#[derive(Debug, Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned();
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), PathBuf::from);
    let copy = target.join("mutants");
    let list = fs::read_to_string(top.join("simulation/mutants.toml")).expect("the list");
    let List { mutant: all } = toml::from_str(&list).expect("a list of mutants");
    let is_wanted = |mutant: &Mutant| {
        mutant.is_in_sql() == args.sql
            && (args.names.is_empty() || args.names.contains(&mutant.name))
            && (!args.gate || mutant.gate)
    };
    let wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    let unknown: Vec<_> = args.names.iter().filter(|name| wanted.iter().all(|mutant| mutant.name != **name)).collect();
    assert!(unknown.is_empty() && !wanted.is_empty(), "no such mutants: {unknown:?}");
    copy_files(&top, &copy);
    if args.sql {
        let mut suites = Suites::new(top, copy, target);
        return report(&wanted, |mutant| suites.judge(mutant));
    }
    // Whatever is found without a mutant would be found with each.
    let unchanged = simulate(&copy, &target, &["--calls", &args.calls.to_string()]);
    let Verdict::BreaksNothing { seeds } = unchanged else {
        println!("without a mutant: {unchanged}");
        return ExitCode::FAILURE;
    };
    println!("by the seeds 1 to {seeds}:");
    let bounds = ["--seeds", &seeds, "--calls", &u64::MAX.to_string()];
    report(&wanted, |mutant| mutant.made_in(&copy, || simulate(&copy, &target, &bounds)))
}

/// Judges each mutant, and says what has become of it.
fn report(wanted: &[Mutant], mut judge: impl FnMut(&Mutant) -> Verdict) -> ExitCode {
    let (mut found, mut missed) = (0, Vec::new());
    for mutant in wanted {
        let began = Instant::now();
        let verdict = judge(mutant);
        let is_found = matches!(verdict, Verdict::BreaksAPromise { .. });
        found += usize::from(is_found);
        let because = mutant.because.as_deref().filter(|_| !is_found);
        if !is_found && because.is_none() {
            missed.push(&*mutant.name);
        }
        let because = because.unwrap_or_default();
        println!("{:<40} {:>4.0} s  {verdict} {because}", mutant.name, began.elapsed().as_secs_f64());
    }
    println!("{found} of {} were found", wanted.len());
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("missed, and the list does not say why: {}", missed.join(", "));
    ExitCode::FAILURE
}

/// Copies what git knows, and what is new, as it is, and removes what is not there any more.
fn copy_files(top: &Path, copy: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(top)
        .output();
    let listed = String::from_utf8(listed.expect("git").stdout).expect("names in UTF-8");
    let mut copied = HashSet::new();
    for name in listed.split_terminator('\0') {
        let (from, to) = (top.join(name), copy.join(name));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a copy that can be written");
        if let Ok(leads_to) = fs::read_link(&from) {
            let _ = fs::remove_file(&to);
            std::os::unix::fs::symlink(leads_to, &to).expect("a copy that can be written");
        } else {
            let Ok(text) = fs::read(&from) else { continue };
            // A file that is not written is not compiled again.
            if fs::read(&to).ok().as_ref() != Some(&text) {
                fs::write(&to, text).expect("a copy that can be written");
            }
        }
        copied.insert(to);
    }
    remove_others(copy, &copied);
}

/// Removes the files of a folder that are not among these.
fn remove_others(folder: &Path, kept: &HashSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder that can be read") {
        let entry = entry.expect("a folder that can be read");
        match entry.file_type().expect("a kind of file").is_dir() {
            true => remove_others(&entry.path(), kept),
            false if kept.contains(&entry.path()) => {}
            false => fs::remove_file(entry.path()).expect("a copy that can be written"),
        }
    }
}

fn simulate(copy: &Path, target: &Path, bounds: &[&str]) -> Verdict {
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).current_dir(copy).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "1");
        cargo.output().expect("cargo")
    };
    let options = ["--quiet", "--locked", "--package", "simulation", "--bin", "simulation", "--profile", "simulation"];
    let built = cargo(&[&["build"], &options[..]].concat());
    if !built.status.success() {
        println!("{}", String::from_utf8_lossy(&built.stderr));
        return Verdict::DoesNotCompile;
    }
    let output = cargo(&[&["run"], &options[..], &["--", "--seconds", "300"], bounds].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().map(str::trim);
    match output.status.code() {
        Some(0) => {
            // The last line that counts: `130 seeds, 20104 calls in 2.1 s`.
            let seeds = lines.rev().find_map(|line| line.split_once(" seeds, "));
            seeds.map_or(Verdict::Crashes, |(seeds, _)| Verdict::BreaksNothing { seeds: seeds.to_owned() })
        }
        Some(1) => {
            let seed = lines.find_map(|line| line.strip_suffix(" breaks a promise:"));
            let promise = lines.next().and_then(|line| line.split(':').next());
            let seen = seed.zip(promise).map(|(seed, promise)| format!("{seed}, {promise}"));
            seen.map_or(Verdict::Crashes, |seen| Verdict::BreaksAPromise { seen })
        }
        _ => Verdict::Crashes,
    }
}
