//! The promises of `docs/guarantees.md`, and the tests that `promises.toml` names for each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promises {
    /// The folders of the suites that are not in `tests/suites`.
    folders: BTreeMap<String, PathBuf>,
    #[serde(rename = "promise")]
    promises: Vec<Promise>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    code: String,
    says: String,
    tests: Vec<String>,
}

/// A guard of `simulation/mutants.toml` that is switched off.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    file: PathBuf,
    /// The consequence, and in brackets the codes of the promises that it breaks.
    breaks: String,
    /// Why the simulation does not find it.
    because: Option<String>,
}

#[test]
fn have_the_codes_of_the_page() {
    let page = fs::read_to_string(top().join("docs/guarantees.md")).expect("the page");
    let promises = Promises::read();
    let on_page = codes(&page);
    let in_file: BTreeSet<_> = promises.promises.iter().map(|promise| promise.code.as_str()).collect();
    let (unknown, unused) = (on_page.difference(&in_file), in_file.difference(&on_page));
    let (unknown, unused) = (unknown.collect::<Vec<_>>(), unused.collect::<Vec<_>>());
    assert!(unknown.is_empty(), "docs/guarantees.md has codes that tests/promises.toml lacks: {unknown:?}");
    assert!(unused.is_empty(), "tests/promises.toml has codes that docs/guarantees.md lacks: {unused:?}");
    assert_eq!(in_file.len(), promises.promises.len(), "tests/promises.toml has a code twice");
}

#[test]
fn are_held_by_tests_that_exist() {
    let promises = Promises::read();
    let mutants: BTreeSet<_> = found_mutants().into_iter().map(|mutant| mutant.name).collect();
    let mut wrong = Vec::new();
    for Promise { code, says, tests } in &promises.promises {
        if says.is_empty() || tests.is_empty() {
            wrong.push(format!("{code} says nothing, or has no tests"));
        }
        let has_test = |test: &str| match test.strip_prefix("mutant::") {
            Some(mutant) => mutants.contains(mutant),
            None => promises.has_test(test),
        };
        let missing = tests.iter().filter(|test| !has_test(test));
        wrong.extend(missing.map(|test| format!("{code} names {test}: no module, function or mutant that is found")));
    }
    assert!(wrong.is_empty(), "tests/promises.toml: {wrong:#?}");
}

#[test]
fn are_broken_by_mutants_but_for_those_that_the_page_names() {
    let page = fs::read_to_string(top().join("docs/guarantees.md")).expect("the page").replace('\n', " ");
    let without = page.split_once("Of all but ").and_then(|(_, rest)| rest.split_once(" a guard")).expect("a list").0;
    let without: BTreeSet<_> = without.split([',', ' ']).filter(|word| is_code(word)).map(str::to_owned).collect();
    let breaks: String = found_mutants().into_iter().map(|mutant| mutant.breaks).collect();
    let promises = Promises::read().promises.into_iter().map(|promise| promise.code);
    let unbroken: BTreeSet<_> = promises.filter(|code| !codes(&breaks).contains(code.as_str())).collect();
    assert_eq!(
        without, unbroken,
        "docs/guarantees.md names the promises that no mutant of simulation/mutants.toml breaks"
    );
}

impl Promises {
    fn read() -> Self {
        let file = fs::read_to_string(top().join("tests/promises.toml")).expect("the file");
        toml::from_str(&file).expect("promises")
    }

    /// Whether a name such as `store::answers` is that of a module, or of a function at the end of a module's path.
    fn has_test(&self, name: &str) -> bool {
        let mut words = name.split("::");
        let suite = words.next().unwrap_or_default();
        let folder = self.folders.get(suite).cloned().unwrap_or_else(|| Path::new("tests/suites").join(suite));
        let mut path = top().join(folder);
        path.extend(words);
        let has_function = || {
            let module = fs::read_to_string(path.parent()?.with_extension("rs")).ok()?;
            let function = format!("fn {}", path.file_name()?.to_str()?);
            Some(module.contains(&format!("{function}(")) || module.contains(&format!("{function}<")))
        };
        path.is_dir() || path.with_extension("rs").is_file() || has_function().unwrap_or(false)
    }
}

/// The mutants that the simulation finds, or a suite on PostgreSQL.
fn found_mutants() -> Vec<Mutant> {
    let list = fs::read_to_string(top().join("simulation/mutants.toml")).expect("the list");
    let mut list: BTreeMap<String, Vec<Mutant>> = toml::from_str(&list).expect("mutants");
    let is_found = |mutant: &Mutant| mutant.because.is_none() || mutant.file.extension().is_some_and(|it| it == "sql");
    list.remove("mutant").expect("mutants").into_iter().filter(is_found).collect()
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The codes in brackets, as in `[T1]` and `[R6, C]`. A link is none.
fn codes(page: &str) -> BTreeSet<&str> {
    let brackets = page.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
    let lists = brackets.filter(|(list, rest)| !rest.starts_with('(') && list.split(", ").all(is_code));
    lists.flat_map(|(list, _)| list.split(", ")).collect()
}

/// Whether a word is an upper-case letter with a number, or without one.
fn is_code(word: &str) -> bool {
    let number = word.strip_prefix(|letter: char| letter.is_ascii_uppercase());
    number.is_some_and(|number| number.chars().all(|digit| digit.is_ascii_digit()))
}
