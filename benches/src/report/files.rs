use std::{ffi::OsStr, fs, path::Path};

use super::Rendered;
use crate::Error;

/// Puts a report in the place of the one before: `benchmarks.md`, and its plots as `benchmarks/<name>.svg`, where plots that are
/// no longer part of it are removed.
///
/// Everything is written aside first and only then renamed, the plots before the text that shows them. So what is there stays
/// as it was if there is no room, say.
///
/// # Errors
///
/// If something could not be written, renamed or removed.
pub(crate) fn replace(docs: &Path, report: &Rendered) -> Result<(), Error> {
    let plots = docs.join("benchmarks");
    fs::create_dir_all(&plots)?;
    let aside = tempfile::Builder::new().prefix(".benchmarks-").tempdir_in(docs)?;
    let mut files = Vec::new();
    for (name, svg) in &report.plots {
        let file = format!("{name}.svg");
        files.push((aside.path().join(&file), plots.join(&file), svg));
    }
    files.push((aside.path().join("benchmarks.md"), docs.join("benchmarks.md"), &report.markdown));

    for (aside, _, content) in &files {
        fs::write(aside, content)?;
    }
    for (aside, place, _) in &files {
        fs::rename(aside, place)?;
    }
    remove_others(&plots, report)?;
    aside.close()?;
    Ok(())
}

fn remove_others(plots: &Path, report: &Rendered) -> Result<(), Error> {
    for entry in fs::read_dir(plots)? {
        let path = entry?.path();
        let is_shown = path.file_stem().and_then(OsStr::to_str).is_some_and(|name| report.plots.contains_key(name));
        if path.extension() == Some(OsStr::new("svg")) && !is_shown {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(markdown: &str, plots: &[(&'static str, &str)]) -> Rendered {
        let plots = plots.iter().map(|(name, svg)| (*name, (*svg).to_owned())).collect();
        Rendered { markdown: markdown.to_owned(), plots }
    }

    fn names(directory: &Path) -> Result<Vec<String>, Error> {
        let entries = fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn a_report_takes_the_place_of_the_one_before() -> Result<(), Error> {
        let docs = tempfile::tempdir()?;
        fs::write(docs.path().join("guarantees.md"), "another")?;
        replace(docs.path(), &report("before", &[("gone", "<svg/>"), ("stays", "<svg/>")]))?;
        fs::write(docs.path().join("benchmarks/notes.txt"), "not ours")?;

        replace(docs.path(), &report("after", &[("comes", "<svg/>"), ("stays", "<svg>2</svg>")]))?;

        assert_eq!(fs::read_to_string(docs.path().join("benchmarks.md"))?, "after");
        assert_eq!(fs::read_to_string(docs.path().join("benchmarks/stays.svg"))?, "<svg>2</svg>");
        assert_eq!(names(&docs.path().join("benchmarks"))?, ["comes.svg", "notes.txt", "stays.svg"]);
        assert_eq!(names(docs.path())?, ["benchmarks", "benchmarks.md", "guarantees.md"]);
        Ok(())
    }

    #[test]
    fn a_report_that_cannot_be_written_changes_nothing() -> Result<(), Error> {
        let docs = tempfile::tempdir()?;
        replace(docs.path(), &report("before", &[("a", "<svg/>"), ("b", "<svg/>")]))?;

        // There is no such directory to write the last of them to.
        let broken = report("after", &[("a", "<svg>2</svg>"), ("nowhere/c", "<svg/>")]);
        assert!(replace(docs.path(), &broken).is_err());

        assert_eq!(fs::read_to_string(docs.path().join("benchmarks.md"))?, "before");
        assert_eq!(fs::read_to_string(docs.path().join("benchmarks/a.svg"))?, "<svg/>");
        assert_eq!(names(&docs.path().join("benchmarks"))?, ["a.svg", "b.svg"]);
        assert_eq!(names(docs.path())?, ["benchmarks", "benchmarks.md"]);
        Ok(())
    }
}
