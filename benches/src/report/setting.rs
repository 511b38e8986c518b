use std::{path::Path, process::Command, time::SystemTime};

use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use crate::format;

/// On what figures came out: without it they say little. What cannot be found out is `unknown`.
#[derive(Debug)]
pub(crate) struct Setting {
    /// What was typed to get them.
    pub(crate) command: String,
    /// In UTC.
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) rust: String,
    pub(crate) processor: String,
    pub(crate) memory: String,
    pub(crate) system: String,
    /// Of the minute before.
    pub(crate) load: String,
}

impl Setting {
    /// As it is now: to be called before anything is measured.
    pub(crate) fn now(root: &Path) -> Self {
        let refresh = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing().with_frequency())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(refresh);
        Self {
            command: command(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            commit: commit(root),
            rust: env!("RUSTC_VERSION").to_owned(),
            processor: processor(&system),
            memory: format::bytes(system.total_memory() as f64),
            system: system_with_kernel(),
            load: format::with_decimals(System::load_average().one, 2),
        }
    }
}

fn command() -> String {
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    let mut command = format!("cargo run{profile} -p benchmarks");
    let args: Vec<_> = std::env::args().skip(1).collect();
    if !args.is_empty() {
        command += " -- ";
        command += &args.join(" ");
    }
    command
}

/// With a word where what was built was another tree. The report before is no change: each run makes it anew.
fn commit(root: &Path) -> String {
    let Some(commit) = git(root, &["rev-parse", "--short=12", "HEAD"]) else { return unknown() };
    let changes = git(root, &["status", "--porcelain", "--", ".", ":(exclude)docs/benchmarks.md"]);
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

fn processor(system: &System) -> String {
    let cpus = system.cpus();
    let model = cpus.first().map(|cpu| cpu.brand().trim()).filter(|brand| !brand.is_empty());
    let model = model.map_or_else(unknown, str::to_owned);
    let threads = cpus.len();
    let cores = System::physical_core_count().map_or_else(unknown, |cores| cores.to_string());
    format!("{model} ({}), cores: {cores}, threads: {threads}", System::cpu_arch())
}

fn system_with_kernel() -> String {
    let system = System::long_os_version().unwrap_or_else(unknown);
    let kernel = System::kernel_version().unwrap_or_else(unknown);
    format!("{system}, kernel {kernel}")
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_tree_is_the_commit_it_is_of_and_says_when_it_was_changed() -> Result<(), Error> {
        let root = tempfile::tempdir()?;
        assert_eq!(commit(root.path()), "unknown");
        let run = |args: &[&str]| git(root.path(), args).expect("git does it");
        run(&["init", "--quiet"]);
        std::fs::write(root.path().join("a"), "1")?;
        run(&["add", "a"]);
        run(&["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "--no-gpg-sign", "-m", "a"]);
        let clean = commit(root.path());
        assert!(clean.len() == 12 && clean.chars().all(|digit| digit.is_ascii_hexdigit()), "{clean}");

        std::fs::create_dir(root.path().join("docs"))?;
        std::fs::write(root.path().join("docs/benchmarks.md"), "the report before")?;
        assert_eq!(commit(root.path()), clean);

        std::fs::write(root.path().join("a"), "2")?;
        assert_eq!(commit(root.path()), format!("{clean}, with changes"));
        Ok(())
    }

    #[test]
    fn everything_is_found_out_about_this_machine() {
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
