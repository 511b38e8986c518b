//! Builds the programs that tests run.

use std::{
    collections::HashMap,
    env,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
};

/// The program of one of the workspace's examples, built if necessary: a single `cargo test --test small` does not
/// build examples. It has the profile of this test, and the features of `cargo run --example` in the workspace's root with
/// `--features` of these.
///
/// # Panics
///
/// It does not build.
pub fn example(name: &str, features: &str) -> PathBuf {
    built("--example", name, features)
}

/// Does the same for one of the workspace's binaries.
///
/// # Panics
///
/// It does not build.
pub fn binary(name: &str, features: &str) -> PathBuf {
    built("--bin", name, features)
}

/// Cargo, as a shell runs it. What cargo tells a test of its package, it must not tell the next cargo: build scripts that look at it
/// (`ring`'s does) would run again, and all that depends on them would be built again, and once more by the shell's next.
fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        if ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"]
            .iter()
            .any(|of_package| name.to_string_lossy().starts_with(of_package))
        {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The example that takes least time to build.
const SMALLEST: &str = "quickstart";

fn built(kind: &'static str, name: &str, features: &str) -> PathBuf {
    static PROGRAMS: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = programs.get_or_insert_default();
    programs.entry(name.to_owned()).or_insert_with(|| build(kind, name, features)).clone()
}

fn build(kind: &str, name: &str, features: &str) -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    // target/debug/deps/sample-0123456789abcdef
    let profile = test.ancestors().nth(2).expect("the directory of the profile");
    let profile_name = profile.file_name().and_then(|name| name.to_str()).expect("the name of the profile");
    let output = cargo()
        .args(["build", "--quiet", kind, name, "--features", features])
        // With an example, cargo counts dev-dependencies: it then builds a binary on the same dependencies as the tests, not on
        // others with fewer features.
        .args(["--example", SMALLEST])
        .args(["--profile", if profile_name == "debug" { "dev" } else { profile_name }])
        .arg("--target-dir")
        .arg(profile.parent().expect("the target directory"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{name} does not build: {}", String::from_utf8_lossy(&output.stderr));
    let directory = if kind == "--example" { profile.join("examples") } else { profile.to_owned() };
    directory.join(format!("{name}{}", env::consts::EXE_SUFFIX))
}
