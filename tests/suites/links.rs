//! The links of the documents and of the generated documentation to files of this repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The base of the links in a published package.
const REPOSITORY: &str = "https://github.com/tonic-idempotency/tonic-idempotency/blob/main/";

#[test]
fn lead_to_files_and_to_headings() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository");
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
                Some("md" | "rs") => files.push(path),
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
    if let Some(path) = path.strip_prefix(REPOSITORY) {
        return Some((top.join(path), heading));
    }
    // The relative links of Rust's documentation are rustdoc's.
    let is_relative = file.extension()? == "md" && !path.contains(':');
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
