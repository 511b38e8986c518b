//! The versions of the clients, from the lock files that they are installed from.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// The version of a crate, from `Cargo.lock`.
pub(crate) fn cargo(name: &str) -> String {
    let lock = read("../../../Cargo.lock");
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    let version = entry.and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or_else(|| panic!("Cargo.lock does not name {name}")).to_owned()
}

/// The version of a Go module, from a `go.mod`.
pub(crate) fn go(lock: &str, module: &str) -> String {
    let text = read(lock);
    let mut lines = text.lines().map(str::split_whitespace);
    let version = lines.find_map(|mut words| (words.next()? == module).then(|| words.next()).flatten());
    version.unwrap_or_else(|| panic!("{lock} does not name {module}")).trim_start_matches('v').to_owned()
}

/// The version of an npm package, from `tests/package-lock.json`.
pub(crate) fn npm(package: &str) -> String {
    let version = npm_lock()["packages"][format!("node_modules/{package}")]["version"].as_str().map(str::to_owned);
    version.unwrap_or_else(|| panic!("package-lock.json does not name {package}"))
}

/// The directory that `npm ci` installs to, and whether the installed packages match the lock file. Optional packages
/// are ignored, as they are for other platforms.
pub(crate) fn npm_installation() -> (PathBuf, bool) {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("node_modules");
    let record = fs::read_to_string(modules.join(".package-lock.json")).ok();
    let record: Option<Value> = record.and_then(|text| serde_json::from_str(&text).ok());
    let lock = npm_lock();
    let mut wanted = lock["packages"].as_object().expect("packages").iter().filter(|(path, _)| !path.is_empty());
    let is_current = record.is_some_and(|record| {
        wanted.all(|(path, package)| match &record["packages"][path] {
            Value::Null => package["optional"] == true,
            installed => installed["integrity"] == package["integrity"],
        })
    });
    (modules, is_current)
}

fn npm_lock() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("package-lock.json");
    serde_json::from_str(&fs::read_to_string(path).expect("package-lock.json")).expect("JSON")
}

/// The version of a Python package, from `requirements.txt`.
pub(crate) fn python(package: &str) -> String {
    let lock = read("python/requirements.txt");
    let version = lock.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("=="));
    version.unwrap_or_else(|| panic!("requirements.txt does not name {package}")).to_owned()
}

fn read(lock: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/clients").join(lock);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
