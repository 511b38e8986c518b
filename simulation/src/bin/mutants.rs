//! Switches guards of the product's code off, one at a time, and looks whether the simulation finds out: `mutants.toml` lists them.
#![expect(clippy::print_stdout, reason = "it says what happens")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use clap::Parser;
use serde::Deserialize;

/// Switches guards off, one at a time, in a copy of the repository, and runs the simulation there.
#[derive(Debug, Parser)]
#[command(version = None)]
struct Args {
    /// The mutants, by their names; all if there are none.
    names: Vec<String>,
    /// Only those of the gate.
    #[arg(long)]
    gate: bool,
    /// How many calls the simulation may make until it has to find each.
    #[arg(long, default_value_t = 20_000)]
    calls: u64,
    /// Fails if fewer are found.
    #[arg(long, default_value_t = 0)]
    least: usize,
}

#[derive(Debug, Deserialize)]
struct List {
    mutant: Vec<Mutant>,
}

/// A guard, and the text that switches it off.
#[derive(Debug, Deserialize)]
struct Mutant {
    name: String,
    file: PathBuf,
    find: String,
    replace: String,
    breaks: String,
    #[serde(default)]
    gate: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned();
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), PathBuf::from).join("mutants");
    let copy = target.join("repository");
    let list = fs::read_to_string(top.join("simulation/mutants.toml")).expect("the list");
    let List { mutant: all } = toml::from_str(&list).expect("a list of mutants");
    let is_wanted =
        |mutant: &Mutant| (args.names.is_empty() || args.names.contains(&mutant.name)) && (!args.gate || mutant.gate);
    let wanted: Vec<_> = all.into_iter().filter(is_wanted).collect();
    let unknown: Vec<_> = args.names.iter().filter(|name| wanted.iter().all(|mutant| mutant.name != **name)).collect();
    assert!(unknown.is_empty() && !wanted.is_empty(), "no such mutants: {unknown:?}");
    copy_files(&top, &copy);
    // Whatever is found without a mutant would be found with each.
    let unchanged = simulate(&copy, &target, args.calls);
    if unchanged != Verdict::BreaksNothing {
        println!("without a mutant: {unchanged:?}");
        return ExitCode::FAILURE;
    }
    let mut found = 0;
    for mutant in &wanted {
        let began = Instant::now();
        let file = copy.join(&mutant.file);
        let text = fs::read_to_string(&file).expect("the file of a mutant");
        assert_eq!(text.matches(&mutant.find).count(), 1, "{}: the text that it replaces", mutant.name);
        fs::write(&file, text.replace(&mutant.find, &mutant.replace)).expect("a copy that can be written");
        let verdict = simulate(&copy, &target, args.calls);
        found += usize::from(verdict == Verdict::BreaksAPromise);
        let verdict = match verdict {
            Verdict::BreaksAPromise => "found".to_owned(),
            other => format!("{other:?}"),
        };
        println!("{verdict:<14} {:>4.0} s  {}: {}", began.elapsed().as_secs_f64(), mutant.name, mutant.breaks);
        fs::write(&file, text).expect("a copy that can be written");
    }
    println!("{found} of {} were found", wanted.len());
    if found >= args.least { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Copies what git knows, and what is new, as it is.
fn copy_files(top: &Path, copy: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(top)
        .output();
    let listed = String::from_utf8(listed.expect("git").stdout).expect("names in UTF-8");
    for name in listed.split_terminator('\0') {
        let (from, to) = (top.join(name), copy.join(name));
        if let Ok(leads_to) = fs::read_link(&from) {
            fs::create_dir_all(to.parent().expect("a folder")).expect("a copy that can be written");
            let _ = fs::remove_file(&to);
            std::os::unix::fs::symlink(leads_to, &to).expect("a copy that can be written");
            continue;
        }
        let Ok(text) = fs::read(&from) else { continue };
        // A file that is not written is not compiled again.
        if fs::read(&to).ok().as_ref() != Some(&text) {
            fs::create_dir_all(to.parent().expect("a folder")).expect("a copy that can be written");
            fs::write(&to, text).expect("a copy that can be written");
        }
    }
}

/// The answer of the simulation about a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    BreaksNothing,
    BreaksAPromise,
    /// It ended in another way than it may.
    Crashes,
    DoesNotCompile,
}

fn simulate(copy: &Path, target: &Path, calls: u64) -> Verdict {
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).current_dir(copy).env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "1");
        cargo.output().expect("cargo").status.code()
    };
    let options = ["--quiet", "--locked", "--package", "simulation", "--bin", "simulation", "--profile", "simulation"];
    if cargo(&[&["build"], &options[..]].concat()) != Some(0) {
        return Verdict::DoesNotCompile;
    }
    match cargo(&[&["run"], &options[..], &["--", "--seconds", "300", "--calls", &calls.to_string()]].concat()) {
        Some(0) => Verdict::BreaksNothing,
        Some(1) => Verdict::BreaksAPromise,
        _ => Verdict::Crashes,
    }
}
