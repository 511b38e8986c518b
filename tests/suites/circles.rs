//! Which file of a crate imports from which, and the circles in that: files that import each other, in one step or in several.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path in its crate: `["engine", "claim"]`.
pub(crate) type Module = Vec<String>;

/// The files of a crate, by module, and from which others each imports. Tests are left out.
pub(crate) struct Crate {
    imports: BTreeMap<Module, BTreeSet<Module>>,
}

impl Crate {
    /// Takes the files by their paths in `src`.
    pub(crate) fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let files: BTreeMap<_, _> = files.into_iter().collect();
        let root = if files.contains_key("lib.rs") { "lib" } else { "main" };
        let module = |path: &str| {
            let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            module.pop_if(|last| last == "mod");
            if module == [root] { Vec::new() } else { module }
        };
        let mut of_tests = BTreeSet::new();
        for (path, text) in &files {
            for rest in text.split("#[cfg(test)]\n").skip(1) {
                let line = rest.lines().next().unwrap_or_default();
                if let Some(name) = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")) {
                    of_tests.insert([module(path).as_slice(), &[name.1.to_owned()]].concat());
                }
            }
        }
        let files = files.iter().map(|(path, text)| (module(path), File::new(text)));
        let files = Files(files.filter(|(module, _)| !of_tests.contains(module)).collect());
        Self { imports: files.0.keys().map(|module| (module.clone(), files.imports(module))).collect() }
    }

    /// Returns the files, and from which others each imports.
    pub(crate) fn imports(&self) -> &BTreeMap<Module, BTreeSet<Module>> {
        &self.imports
    }

    /// Returns the files that are in circles, each circle for itself.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let reached = |from: &Module| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&Module> = self.imports[from].iter().collect();
            while let Some(module) = next.pop() {
                if seen.insert(module.clone()) {
                    next.extend(&self.imports[module]);
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.imports.keys().map(|module| (module, reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, others) in &reached {
            let circle: Vec<_> = others.iter().filter(|other| reached[other].contains(*module)).collect();
            if !circle.is_empty() {
                circles.insert(circle.into_iter().map(|module| name(module)).collect());
            }
        }
        circles.into_iter().collect()
    }
}

/// Returns the name of a module: its path, or `lib`.
pub(crate) fn name(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

/// The files of a crate, by module.
struct Files(BTreeMap<Module, File>);

impl Files {
    /// The files that a file imports from, behind what others re-export.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let file = &self.0[module];
        let uses = file.uses.iter().filter(|import| !import.is_public || file.words.contains(import.name()));
        let paths = uses.map(|import| &import.path).chain(file.words.iter().filter(|word| word.contains("::")));
        let found = paths.filter_map(|path| self.resolve(module, path, 0));
        found.filter(|found| found != module && self.0.contains_key(found)).collect()
    }

    /// The module in which the last part of a path is made.
    fn resolve(&self, from: &Module, path: &str, depth: usize) -> Option<Module> {
        let inner = |module: &Module, part: &str| {
            let inner = [module.as_slice(), &[part.to_owned()]].concat();
            self.0.contains_key(&inner).then_some(inner)
        };
        let mut parts = path.split("::").peekable();
        let mut at = match parts.next()? {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => {
                let mut at = from[..from.len().checked_sub(1)?].to_vec();
                while parts.next_if_eq(&"super").is_some() {
                    at.pop();
                }
                at
            }
            // A module that is made in this file, by its name only.
            part => inner(from, part)?,
        };
        while let Some(module) = parts.peek().and_then(|part| inner(&at, part)) {
            at = module;
            parts.next();
        }
        let Some(name) = parts.next().filter(|_| depth < 6) else { return Some(at) };
        let name = name.split(" as ").next().unwrap_or(name);
        // A private import is there for the modules inside.
        let named = self.0.get(&at)?.uses.iter().find(|import| import.name() == name);
        named.and_then(|import| self.resolve(&at, &import.path, depth + 1)).or(Some(at))
    }
}

/// A file without its tests and comments.
struct File {
    uses: Vec<Import>,
    /// The names and paths in its code.
    words: BTreeSet<String>,
}

impl File {
    fn new(text: &str) -> Self {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let text = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
        let (mut uses, mut words) = (Vec::new(), BTreeSet::new());
        for statement in without_places(&without_inner_modules(&text)).split(';') {
            let import = statement.match_indices("use ").find_map(|(at, _)| {
                let before = statement[..at].rsplit('\n').next().unwrap_or_default().trim();
                ["", "pub", "pub(crate)", "pub(super)"].contains(&before).then_some((at, !before.is_empty()))
            });
            let code = import.map_or(statement, |(at, _)| &statement[..at]);
            let mut before = "";
            for word in code.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':') {
                // To make a module is not to use it. Some words end with the colons of `::<` or of a type.
                if before != "mod" {
                    words.insert(word.trim_end_matches(':').to_owned());
                }
                before = word;
            }
            if let Some((at, is_public)) = import {
                let tree = statement[at + 4..].split_whitespace().collect::<Vec<_>>().join(" ");
                let tree = tree.replace(" as ", "\u{1}").replace(' ', "").replace('\u{1}', " as ");
                uses.extend(expanded(&tree).into_iter().map(|path| Import { path, is_public }));
            }
        }
        Self { uses, words }
    }
}

/// An import of one name.
struct Import {
    path: String,
    is_public: bool,
}

impl Import {
    /// The name by which the file knows it.
    fn name(&self) -> &str {
        let last = self.path.rsplit("::").next().unwrap_or_default();
        last.rsplit(" as ").next().unwrap_or_default()
    }
}

/// Lets modules inside of the file be parts of it: `super` in them is the file.
fn without_inner_modules(text: &str) -> String {
    let mut end = None;
    let lines = text.lines().map(|line| {
        let indent = &line[..line.len() - line.trim_start().len()];
        if end.is_none()
            && line.ends_with(" {")
            && line.split_whitespace().rev().nth(2).is_some_and(|word| word == "mod")
        {
            end = Some(format!("{indent}}}"));
        } else if end.as_deref() == Some(line) {
            end = None;
        }
        let inside = end.is_some();
        if inside { line.replacen("super::", "self::", 1) } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Leaves out the places of visibilities, such as `(in crate::store)`: they are no imports.
fn without_places(text: &str) -> String {
    let mut parts = text.split("(in ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// The paths of a tree of imports.
fn expanded(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let inside = &inside[..inside.rfind('}').unwrap_or(inside.len())];
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in inside.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match (letter, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().expect("at least one").push(letter),
        }
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| expanded(part)).map(|path| format!("{before}{path}")).collect()
}

#[test]
fn are_found_behind_what_a_module_exports() {
    let files = [
        ("lib.rs", "mod a;\nmod b;"),
        ("a/mod.rs", "mod inner;\npub use self::inner::Inner;"),
        ("a/inner.rs", "use crate::b::Outer;"),
        ("b.rs", "use crate::{a::Inner, c::{Only as Other}};"),
        ("c.rs", "// use crate::b::Outer;\nstruct Only;"),
    ];
    assert_eq!(made_of(&files).circles(), [["a/inner", "b"]]);
}

#[test]
fn are_found_by_the_names_of_modules_in_a_file() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a/mod.rs", "mod inner;\npub struct Outer(inner::Inner);"),
        ("a/inner.rs", "pub struct Inner;\nuse super::Outer;"),
        ("b/mod.rs", "mod inner;\nuse inner::Inner;"),
        ("b/inner.rs", "use std::inner::Inner;\nfn f(_: super::Outer) {}"),
        ("c/mod.rs", "mod inner;\n#[cfg(test)]\nmod checks;\nmod parts {\n    pub use super::inner::Inner;\n}"),
        ("c/inner.rs", "pub(in crate::c) struct Inner;\nmod parts {\n    use super::Inner;\n}"),
        ("c/checks.rs", "use crate::c::inner;"),
    ];
    assert_eq!(made_of(&files).circles(), [["a", "a/inner"], ["b", "b/inner"]]);
}

fn made_of(files: &[(&str, &str)]) -> Crate {
    Crate::new(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())))
}
