//! Mutants in SQL: the suites on PostgreSQL, whose databases have the guard switched off.

use std::{
    collections::HashMap,
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use crate::{mutant::Mutant, verdict::Verdict};

/// The suites in the order of their cost: the folder of the package, the test target, and the modules.
const SUITES: [(&str, &str, &[&str]); 4] = [
    ("tests", "store", &["postgres::"]),
    ("tests", "store", &["batches::"]),
    (
        "tests",
        "store",
        &["free_keys::", "go_interceptor::", "late::", "look_ups::", "open_transactions::", "races::", "retention::"],
    ),
    ("tests", "transaction", &["every_driver::"]),
];

/// The time that a suite may take. A mutant may make one wait for ever.
const PATIENCE: Duration = Duration::from_secs(600);

/// The variable that names a migration whose functions the tests install over those that were made.
const VARIABLE: &str = "IDEMPOTENCY_TEST_MUTANT";

/// The programs of the test targets.
type Programs = HashMap<String, PathBuf>;

/// The suites, built without a mutant.
#[derive(Debug)]
pub(crate) struct Suites {
    top: PathBuf,
    copy: PathBuf,
    target: PathBuf,
    programs: Programs,
    /// How many of them have passed without a mutant.
    passed: usize,
}

impl Suites {
    pub(crate) fn new(top: PathBuf, copy: PathBuf, target: PathBuf) -> Self {
        let mut programs = build(&top, &target).expect("suites that compile");
        // Kept: cargo builds those of a copy over them.
        for program in programs.values_mut() {
            let kept = target.join(program.file_name().expect("a program")).with_extension("kept");
            fs::copy(&*program, &kept).expect("a folder that can be written");
            *program = kept;
        }
        Self { top, copy, target, programs, passed: 0 }
    }

    /// Runs the suites until one fails: with the mutant of a migration as they are, and with that of a statement, which the product includes,
    /// as they are built in the copy.
    pub(crate) fn judge(&mut self, mutant: &Mutant) -> Verdict {
        if mutant.file.starts_with("migrations") {
            let (file, [_, without]) = (self.target.join("mutant.sql"), mutant.texts(&self.top));
            fs::write(&file, without).expect("a folder that can be written");
            let (top, programs) = (self.top.clone(), self.programs.clone());
            return self.find(&top, &programs, Some(&file));
        }
        let copy = self.copy.clone();
        mutant.made_in(&copy, || match build(&copy, &self.target) {
            Some(programs) => self.find(&copy, &programs, None),
            None => Verdict::DoesNotCompile,
        })
    }

    fn find(&mut self, top: &Path, programs: &Programs, mutant: Option<&Path>) -> Verdict {
        for index in 0..SUITES.len() {
            if index == self.passed {
                // Whatever is found without a mutant would be found with each.
                let unchanged = first_failure(&self.top, &self.programs, index, None);
                assert_eq!(unchanged, None, "without a mutant");
                self.passed += 1;
            }
            if let Some(seen) = first_failure(top, programs, index, mutant) {
                return Verdict::BreaksAPromise { seen };
            }
        }
        Verdict::BreaksNothing { seeds: String::new() }
    }
}

/// Builds the suites. Without `-p`, as in the gate: with it, cargo builds what they need again.
fn build(top: &Path, target: &Path) -> Option<Programs> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--locked", "--no-run"]).current_dir(top).env("CARGO_TARGET_DIR", target);
    // As from a shell: a build script that looks at the package of the cargo which runs this would run again.
    for (name, _) in env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"].iter().any(|of_package| name.starts_with(of_package))
    }) {
        cargo.env_remove(name);
    }
    for (_, suite, _) in SUITES {
        cargo.args(["--test", suite]);
    }
    let output = cargo.output().expect("cargo");
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        println!("{text}");
        return None;
    }
    // `Executable tests/suites/store/main.rs (/target/debug/deps/store-0123456789abcdef)`
    let programs = text.lines().filter_map(|line| line.trim().strip_prefix("Executable ")?.split_once(" ("));
    let programs = programs.map(|(_, path)| PathBuf::from(path.trim_end_matches(')')));
    let named = programs.filter_map(|path| Some((path.file_stem()?.to_str()?.rsplit_once('-')?.0.to_owned(), path)));
    Some(named.collect())
}

/// Runs a suite until a test fails, and returns that.
fn first_failure(top: &Path, programs: &Programs, suite: usize, mutant: Option<&Path>) -> Option<String> {
    let (folder, suite, modules) = SUITES[suite];
    let mut program = Command::new(&programs[suite]);
    program.args(modules).current_dir(top.join(folder)).env_remove(VARIABLE);
    program.envs(mutant.map(|file| (VARIABLE, file))).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = program.spawn().expect("a suite");
    let lines = BufReader::new(running.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let (sender, said) = channel();
    thread::spawn(move || lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop));
    let ends = Instant::now() + PATIENCE;
    let failure = loop {
        match said.recv_timeout(ends.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let failed = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
                if let Some(test) = failed {
                    break Some(test.to_owned());
                }
            }
            Err(RecvTimeoutError::Timeout) => break Some("it does not end".to_owned()),
            Err(RecvTimeoutError::Disconnected) => break None,
        }
    };
    if failure.is_some() {
        // It may have ended.
        let _ = running.kill();
    }
    let has_passed = running.wait().expect("its end").success();
    let failure = failure.or_else(|| (!has_passed).then(|| "it crashes".to_owned()));
    failure.map(|test| format!("{suite} {test}"))
}
