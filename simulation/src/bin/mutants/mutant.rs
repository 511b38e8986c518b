//! A guard that is switched off.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

/// A guard, and the text that switches it off.
#[derive(Debug, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    find: String,
    replace: String,
    #[serde(default)]
    pub(crate) gate: bool,
    /// Why it cannot be found, if it cannot.
    pub(crate) because: Option<String>,
}

impl Mutant {
    pub(crate) fn is_in_sql(&self) -> bool {
        self.file.extension().is_some_and(|extension| extension == "sql")
    }

    /// Returns the text of its file below this folder, without and with the guard.
    pub(crate) fn texts(&self, top: &Path) -> [String; 2] {
        let text = fs::read_to_string(top.join(&self.file)).expect("the file of a mutant");
        assert_eq!(text.matches(&self.find).count(), 1, "{}: the text that it replaces", self.name);
        let without = text.replace(&self.find, &self.replace);
        [text, without]
    }

    /// Runs something while the guard is switched off in the copy.
    pub(crate) fn made_in<T>(&self, copy: &Path, run: impl FnOnce() -> T) -> T {
        let (file, [text, without]) = (copy.join(&self.file), self.texts(copy));
        fs::write(&file, without).expect("a copy that can be written");
        let result = run();
        fs::write(&file, text).expect("a copy that can be written");
        result
    }
}
