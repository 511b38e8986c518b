//! The links of the documents and of the generated documentation to files of this repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Addresses that the project does not have yet: a repository, published crates, and their documentation.
const INVENTED: [&str; 4] = [
    "github.com/tonic-idempotency",
    "docs.rs/tonic-idempotency",
    "crates.io/crates/tonic-idempotency",
    "img.shields.io",
];

#[test]
fn lead_to_files_and_to_headings() {
    let top = top();
    let mut dead = Vec::new();
    let mut count = 0;
    for file in files(&top) {
        let text = fs::read_to_string(&file).expect("a text");
        for link in links(&text) {
            let Some((path, heading)) = of_repository(&top, &file, link) else { continue };
            count += 1;
            if !path.exists() || heading.is_some_and(|heading| !has_heading(&path, heading)) {
                dead.push(format!("{}: {link}", file.strip_prefix(&top).expect("in it").display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(count > 200, "only {count} links were found");
}

#[test]
fn lead_to_no_address_that_does_not_exist() {
    let top = top();
    let manifests = members(&top).into_iter().map(|package| package.join("Cargo.toml"));
    for file in files(&top).into_iter().chain(manifests) {
        let text = fs::read_to_string(&file).expect("a text");
        for address in INVENTED {
            assert!(!text.contains(address), "{}: {address}", file.display());
        }
    }
}

/// Beside an unpacked package, there is nothing else.
#[test]
fn of_a_package_lead_to_files_in_it() {
    for package in members(&top()) {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).expect("a manifest");
        let list = manifest.split("\ninclude = [").nth(1).and_then(|list| list.split(']').next()).expect("what it has");
        let included: Vec<_> =
            list.split('"').skip(1).step_by(2).map(|path| package.join(path.trim_start_matches('/'))).collect();
        let readme = manifest.split("\nreadme = \"").nth(1).and_then(|name| name.split('"').next()).expect("a README");
        let readme = package.join(readme);
        for link in links(&fs::read_to_string(&readme).expect("a text")).filter(|link| !link.contains(':')) {
            let target = readme.parent().expect("a folder").join(link).canonicalize().expect("a file");
            let is_there = included.iter().any(|path| target.starts_with(path));
            assert!(is_there, "{}: {link} is not in the package", readme.display());
        }
    }
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// The published packages.
fn members(top: &Path) -> Vec<PathBuf> {
    let crates = fs::read_dir(top.join("crates")).expect("a folder").map(|entry| entry.expect("an entry").path());
    crates.chain([top.to_owned()]).collect()
}

/// The documents, and the sources of the published packages.
fn files(top: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_symlink() || ["target", "node_modules", "tests", ".git"].contains(&name.as_str()) {
                continue;
            }
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("md" | "rs" | "txt") => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// The targets of the links of Markdown.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)).filter(|link| !link.contains(' '))
}

/// The file and the heading of a link to this repository.
fn of_repository<'a>(top: &Path, file: &Path, link: &'a str) -> Option<(PathBuf, Option<&'a str>)> {
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    // The relative links of Rust's documentation are rustdoc's.
    let is_relative = file.extension()? != "rs" && !path.contains(':');
    is_relative.then(|| {
        let target = if path.is_empty() { file.to_owned() } else { file.parent().unwrap_or(top).join(path) };
        (target, heading)
    })
}

/// Whether a document has a heading of this name, as GitHub makes names.
fn has_heading(path: &Path, name: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.starts_with('#')).any(|line| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || ['-', '_', ' '].contains(letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).eq(name.chars())
    })
}
