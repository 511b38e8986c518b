//! Circles of files: those that import each other, in one step or in several.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path in its crate: `["engine", "claim"]`.
type Module = Vec<String>;

/// The files of a crate, by module, without their tests and comments.
pub(crate) struct Crate {
    files: BTreeMap<Module, String>,
}

impl Crate {
    /// Takes the files by their paths in `src`.
    pub(crate) fn new(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let module = |path: String| {
            let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib"));
            module
        };
        let code = |text: String| {
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
        };
        Self { files: files.into_iter().map(|(path, text)| (module(path), code(text))).collect() }
    }

    /// Returns the files that are in circles, each circle for itself.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let imports: BTreeMap<&Module, BTreeSet<Module>> =
            self.files.keys().map(|module| (module, self.imports(module))).collect();
        let reached = |from: &Module| {
            let mut seen = BTreeSet::new();
            let mut next: Vec<&Module> = imports[from].iter().collect();
            while let Some(module) = next.pop() {
                if seen.insert(module.clone()) {
                    next.extend(&imports[module]);
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.files.keys().map(|module| (module, reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, others) in &reached {
            let circle: Vec<_> = others.iter().filter(|other| reached[other].contains(*module)).collect();
            if !circle.is_empty() {
                circles.insert(circle.into_iter().map(|module| module.join("/")).collect());
            }
        }
        circles.into_iter().collect()
    }

    /// The files that a file imports from, behind what others re-export.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.files[module];
        let uses = uses(text).into_iter().filter(|(is_public, _)| !is_public).map(|(_, path)| path);
        // A visibility, such as `pub(in crate::store)`, is no import.
        let without_visibility = text.replace("(in crate::", "(");
        let inline = without_visibility.split("crate::").skip(1).map(|rest| format!("crate::{}", path_in(rest)));
        let found = uses.chain(inline).filter_map(|path| self.resolve(module, &path, 0));
        found.filter(|found| found != module && self.files.contains_key(found)).collect()
    }

    /// The module in which the last part of a path is made.
    fn resolve(&self, from: &Module, path: &str, depth: usize) -> Option<Module> {
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
            _ => return None,
        };
        while let Some(part) = parts.peek() {
            let inner = [at.as_slice(), &[(*part).to_owned()]].concat();
            if !self.files.contains_key(&inner) {
                break;
            }
            at = inner;
            parts.next();
        }
        let Some(name) = parts.next().filter(|_| depth < 6) else { return Some(at) };
        let name = name.split(" as ").next().unwrap_or(name);
        let exported = uses(self.files.get(&at)?).into_iter().filter(|(is_public, _)| *is_public);
        let named = exported.map(|(_, path)| path).find(|path| {
            let last = path.rsplit("::").next().unwrap_or_default();
            last.rsplit(" as ").next() == Some(name)
        });
        named.and_then(|path| self.resolve(&at, &path, depth + 1)).or(Some(at))
    }
}

/// The paths of the imports of a file, and whether they are public.
fn uses(text: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("use ") {
        let line = text[..start].rsplit('\n').next().unwrap_or_default().trim_start();
        if !line.is_empty() && !line.starts_with("pub") {
            continue;
        }
        let tree: Vec<&str> = text[start + 4..].split(';').next().unwrap_or_default().split_whitespace().collect();
        found.extend(
            expanded(&tree.join(" ").replace(" as ", "\u{1}").replace(' ', "").replace('\u{1}', " as "))
                .into_iter()
                .map(|path| (!line.is_empty(), path)),
        );
    }
    found
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

/// The path at the beginning of a text.
fn path_in(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
    text[..end.unwrap_or(text.len())].trim_end_matches(':')
}

#[test]
fn are_found_behind_what_a_module_exports() {
    let files = [
        ("lib.rs", "mod a;\nmod b;"),
        ("a/mod.rs", "mod inner;\npub use self::inner::Inner;"),
        ("a/inner.rs", "use crate::b::Outer;"),
        ("b.rs", "use crate::{a::Inner, c::{Alone as Other}};"),
        ("c.rs", "// use crate::b::Outer;\nstruct Alone;"),
    ];
    let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
    assert_eq!(Crate::new(files).circles(), [["a/inner", "b"]]);
}
