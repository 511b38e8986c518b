//! The setting of a run: its command, machine, compiler and commit.

use std::{fs, path::Path, process::Command, time::SystemTime};

use procfs::{CpuInfo, Current as _, LoadAverage, Meminfo};

use crate::format;

/// The setting of a run, without which its figures say little. A property that cannot be found out is `unknown`.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The command line of the run.
    pub(crate) command: String,
    /// In UTC.
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) rust: String,
    pub(crate) processor: String,
    pub(crate) memory: String,
    pub(crate) system: String,
    /// The load average of the minute before.
    pub(crate) load: String,
}

impl Setting {
    /// Returns the present setting. To be called before the first measurement.
    pub(crate) fn now(root: &Path) -> Self {
        Self {
            command: command(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            commit: commit(root),
            rust: env!("RUSTC_VERSION").to_owned(),
            processor: processor(),
            memory: Meminfo::current().map_or_else(|_| unknown(), |memory| format::bytes(memory.mem_total as f64)),
            system: system(),
            load: LoadAverage::current()
                .map_or_else(|_| unknown(), |load| format::with_decimals(f64::from(load.one), 2)),
        }
    }
}

fn command() -> String {
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let features = if cfg!(feature = "drivers") { " --features drivers" } else { "" };
    let mut command = format!("cargo run{profile} -p benchmarks{features}");
    let args: Vec<_> = std::env::args().skip(1).collect();
    if !args.is_empty() {
        command += " -- ";
        command += &args.join(" ");
    }
    command
}

/// Returns the commit, and says so if the tree differs from it. The report itself is left out, as each run replaces it.
fn commit(root: &Path) -> String {
    let Some(commit) = git(root, &["rev-parse", "--short=12", "HEAD"]) else { return unknown() };
    let changes = git(root, &["status", "--porcelain", "--", ".", ":(exclude)results/benchmarks.md"]);
    match changes.as_deref() {
        Some("") => commit,
        Some(_) => format!("{commit}, with changes"),
        None => format!("{commit}, with changes or without"),
    }
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn processor() -> String {
    let Ok(processors) = CpuInfo::current() else { return unknown() };
    let model = processors.model_name(0).map_or_else(unknown, str::to_owned);
    format!("{model} ({}), threads: {}", std::env::consts::ARCH, processors.num_cores())
}

fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"'));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| unknown());
    format!("{}, kernel {}", name.unwrap_or("Linux"), kernel.trim())
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_commit_says_whether_its_tree_was_changed() -> Result<(), Error> {
        let root = tempfile::tempdir()?;
        assert_eq!(commit(root.path()), "unknown");
        let run = |args: &[&str]| git(root.path(), args).expect("git succeeds");
        run(&["init", "--quiet"]);
        fs::write(root.path().join("a"), "1")?;
        run(&["add", "a"]);
        run(&["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "--no-gpg-sign", "-m", "a"]);
        let clean = commit(root.path());
        assert!(clean.len() == 12 && clean.chars().all(|digit| digit.is_ascii_hexdigit()), "{clean}");

        fs::create_dir(root.path().join("results"))?;
        fs::write(root.path().join("results/benchmarks.md"), "an earlier report")?;
        assert_eq!(commit(root.path()), clean);

        fs::write(root.path().join("a"), "2")?;
        assert_eq!(commit(root.path()), format!("{clean}, with changes"));
        Ok(())
    }

    #[test]
    fn the_setting_of_this_machine_is_known() {
        let Setting { command, date, rust, processor, memory, system, load, .. } =
            Setting::now(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(command.starts_with("cargo run "), "{command}");
        assert!(date.ends_with('Z') && date.len() == "2000-01-01T00:00:00Z".len(), "{date}");
        assert!(rust.starts_with("rustc 1."), "{rust}");
        assert!(processor.contains("threads: "), "{processor}");
        assert!(memory.ends_with("iB"), "{memory}");
        assert!(system.contains(", kernel "), "{system}");
        assert!(load.parse::<f64>().is_ok(), "{load}");
    }
}
