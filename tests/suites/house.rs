//! What the project may weigh, counted from its files. A failure says what has grown; the budget of a row is lowered when the row has become lighter.

mod rooms;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use crate::circles::Crate;

/// The words that a Markdown page may have outside of its code.
const WORDS_OF_A_PAGE: usize = 3500;

/// The builders whose methods are settings, and where: a server's, which docs/settings.md lists.
const BUILDERS: [(&str, &[&str]); 7] = [
    (
        "IdempotencyLayerBuilder",
        &[
            "src/layer/builder/mod.rs",
            "src/layer/builder/limits.rs",
            "src/layer/builder/replays.rs",
            "src/layer/builder/seal.rs",
            "src/layer/builder/spans.rs",
        ],
    ),
    ("ProcedureBuilder", &["src/policy/builder.rs"]),
    ("SqlStore", &["src/store/sql/settings.rs", "src/store/postgres/driver.rs"]),
    ("Sweeper", &["src/maintenance/sweeper.rs"]),
    ("Recovery", &["src/maintenance/recovery.rs"]),
    ("ConnectLayer", &["src/connect/layer.rs"]),
    ("OperationServiceBuilder", &["src/operations/builder.rs"]),
];

/// The fields of `Limits`.
const LIMITS: [&str; 5] = ["in_flight", "records", "transactions", "unrecorded", "waiting"];

/// Methods that take settings, which are counted.
const HOLDERS: [&str; 3] = ["limits", "policies", "procedure"];

/// Names in the first column of the page's tables that are no settings of a builder here: of other crates, the stores that have a setting, and
/// features of cargo.
const NO_SETTINGS: [&str; 14] = [
    "new",
    "run_before_acquire",
    "PostgresStore",
    "Sqlx",
    "SeaOrm",
    "postgres",
    "sql",
    "connect",
    "gzip",
    "deflate",
    "zstd",
    "conformance",
    "json",
    "testing",
];

/// The steps of a claim from the engine to its SQL: the file, the code by which it hands the call over, and the file to which.
const CLAIM: [(&str, &str, &str); 7] = [
    ("src/engine/mod.rs", "claim(engine, call).await", "src/engine/claim.rs"),
    ("src/engine/claim.rs", "engine.store.claim(", "src/store/erased.rs"),
    ("src/store/erased.rs", "Store::claim(self, claim)", "src/store/sql/store.rs"),
    ("src/store/sql/store.rs", "claim::claim(&self.connections", "src/store/sql/calls/claim.rs"),
    ("src/store/sql/calls/claim.rs", "operation.run(ask", "src/store/sql/operation/operation.rs"),
    ("src/store/sql/operation/operation.rs", "lane.enter(&self.progress", "src/store/sql/batch/lane.rs"),
    ("src/store/sql/calls/claim.rs", "sql().claim", "src/store/sql/statements/claim.sql"),
];

/// The same of a claim that begins a transaction.
const BEGIN: [(&str, &str, &str); 7] = [
    ("src/engine/mod.rs", "claim(engine, call).await", "src/engine/claim.rs"),
    ("src/engine/claim.rs", "engine.store.begin(", "src/store/erased.rs"),
    ("src/store/erased.rs", "Store::begin(self, claim", "src/store/sql/store.rs"),
    ("src/store/sql/store.rs", "OpenTransaction::<D>::begin(", "src/store/sql/transaction/open.rs"),
    ("src/store/sql/transaction/open.rs", "operation.run(begin", "src/store/sql/operation/operation.rs"),
    ("src/store/sql/transaction/open.rs", "take(operation", "src/store/sql/transaction/take.rs"),
    ("src/store/sql/transaction/take.rs", "sql.take", "src/store/sql/statements/take.sql"),
];

/// A row of the table: what was counted, and the most that there may be.
struct Row {
    of: &'static str,
    count: usize,
    most: usize,
    /// What it should come to.
    goal: usize,
}

#[test]
#[expect(clippy::print_stdout, reason = "the table of weights")]
fn weighs_no_more_than_its_budget() {
    let (rust, pages) = (files("rs"), pages());
    let readme = pages.get(Path::new("README.md")).expect("a README");
    let first =
        readme.lines().position(|line| line.contains("IdempotencyLayer::builder")).map_or(usize::MAX, |line| line + 1);
    let words = |text: &String| text.split_whitespace().count();
    let [library, tools] = lines();
    let comments = |begins: &[&str]| rust.values().map(|text| beginning_with(text, begins)).sum();
    let prose = rust.values().map(|text| comments_of(text)).chain(pages.values().cloned()).collect::<String>();
    let said = |words: &[&str]| occurrences(&prose, words);
    let rows = [
        Row { of: "words of the README", count: words(readme), most: 900, goal: 900 },
        Row { of: "line of the README in which the layer is built", count: first, most: 40, goal: 40 },
        Row {
            of: "words of Markdown, without results of runs",
            count: pages.values().map(words).sum(),
            most: 46_000,
            goal: 46_000,
        },
        Row {
            of: "pages in docs",
            count: pages.keys().filter(|page| page.parent() == Some(Path::new("docs"))).count(),
            most: 18,
            goal: 18,
        },
        Row { of: "settings of a server", count: settings().len(), most: 62, goal: 62 },
        Row { of: "lines of test and tool for 100 of the library", count: 100 * tools / library, most: 185, goal: 185 },
        Row {
            of: "doc comments that begin with What, Who, Where",
            count: comments(&["What ", "Who ", "Where "]),
            most: 0,
            goal: 0,
        },
        Row {
            of: "nobody, somebody, everybody",
            count: said(&["nobody", "somebody", "everybody"]),
            most: 10,
            goal: 10,
        },
        Row { of: "another one", count: said(&["another one"]), most: 5, goal: 5 },
        Row { of: "alone", count: said(&["alone"]), most: 60, goal: 60 },
        Row {
            of: "files from the engine to the SQL of a claim",
            count: files_of(&CLAIM).max(files_of(&BEGIN)),
            most: 8,
            goal: 8,
        },
    ];
    let mut table = String::new();
    for Row { of, count, most, goal } in &rows {
        writeln!(table, "{of:<50} {count:>6}   at most {most:>6}   goal {goal:>6}").expect("a string");
    }
    println!("{table}");
    let heavy: Vec<_> = rows.iter().filter(|row| row.count > row.most).map(|row| row.of).collect();
    assert!(heavy.is_empty(), "beyond their budgets: {heavy:?}\n{table}");
}

#[test]
fn has_no_page_that_is_too_long() {
    let long = pages().into_iter().filter_map(|(page, text)| {
        let words = outside_of_code(&text).split_whitespace().count();
        (words > WORDS_OF_A_PAGE).then(|| format!("{}: {words} words", page.display()))
    });
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "more than {WORDS_OF_A_PAGE} words outside of code: {long:?}");
}

#[test]
fn has_the_settings_that_the_page_lists() {
    let page = read("docs/settings.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = rows
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|name| name.split(['(', ':']).next().unwrap_or(name));
    let listed: BTreeSet<_> = names.map(str::to_owned).collect();
    let made: BTreeSet<_> = settings().into_iter().map(|(_, name)| name).collect();
    let (unlisted, unknown) = (made.difference(&listed), listed.difference(&made));
    let unlisted: Vec<_> = unlisted.collect();
    assert!(unlisted.is_empty(), "docs/settings.md lacks {unlisted:?}");
    let known = [&NO_SETTINGS[..], &HOLDERS].concat();
    let unknown: Vec<_> = unknown.filter(|name| !known.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "docs/settings.md has {unknown:?}, which no builder has");
}

/// A setting of a procedure stands in the proto option, in code, and in the table.
#[test]
fn has_each_setting_of_a_procedure_in_the_option_and_in_code() {
    let proto = read("proto/idempotency/v1/procedure.proto");
    let option = proto.split_once("message Procedure {").expect("the option").1;
    let option = option.split_once("\n}").expect("its end").0;
    let fields =
        option.lines().filter(|line| line.starts_with("  ") && line.trim_end().ends_with(';') && line.contains(" = "));
    let fields = fields.filter_map(|line| line.split(" = ").next()?.split_whitespace().last()).map(str::to_owned);
    let of_option: BTreeSet<_> = fields.collect();
    let mut in_code = methods("ProcedureBuilder", &["src/policy/builder.rs"]);
    // Of the option it is a field of `creates`.
    in_code.remove("creates_untracked");
    assert_eq!(of_option, in_code, "the option and ProcedureBuilder");
}

/// A module imports only from lower levels of the table in ARCHITECTURE.md.
#[test]
fn imports_from_lower_levels_alone() {
    let page = read("ARCHITECTURE.md");
    let mut levels = BTreeMap::new();
    let table = page
        .split_once("imports only from lower levels:\n\n```")
        .expect("the table of levels")
        .1
        .split("```")
        .next()
        .expect("its end");
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let Some(Ok(level)) = words.next().map(str::parse::<u32>) else { continue };
        levels.extend(words.map(|module| (module.to_owned(), level)));
    }
    let library = &rooms::folders()["src"];
    let modules = library.rooms.iter().map(String::as_str).chain(["lib"]).collect::<BTreeSet<_>>();
    let listed = levels.keys().map(String::as_str).collect::<BTreeSet<_>>();
    let differ: Vec<_> = modules.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "either without a level in ARCHITECTURE.md, or no module: {differ:?}");
    // `lib.rs` makes nothing: a module imports from it what comes from another crate.
    let between = library.imports.iter().filter(|((from, to), _)| ![from, to].contains(&&rooms::MOD.to_owned()));
    let wrong: BTreeMap<_, _> = between.filter(|((from, to), _)| levels[to] >= levels[from]).collect();
    assert!(wrong.is_empty(), "against the levels of ARCHITECTURE.md: {wrong:#?}");
}

/// No file imports one that imports it, in one step or in several.
#[test]
fn has_no_circles_of_files() {
    let circles = crates().into_iter().flat_map(|(source, sources)| {
        sources.circles().into_iter().map(move |circle| format!("{source}: {}", circle.join(", ")))
    });
    let circles: Vec<_> = circles.collect();
    assert!(circles.is_empty(), "circles: {circles:#?}");
}

/// Counts the files of the steps, each of which has to be as the list says.
fn files_of(steps: &[(&str, &str, &str)]) -> usize {
    for (from, code, to) in steps {
        assert!(
            read(from).contains(code),
            "{from} hands a claim over to {to} by other code than {code:?}: adapt the list"
        );
        assert!(top().join(to).exists(), "{to} has moved: adapt the list");
    }
    steps.iter().flat_map(|(from, _, to)| [from, to]).collect::<BTreeSet<_>>().len()
}

/// The settings of a server, by their builders. Each field of `Limits` counts as one.
fn settings() -> BTreeSet<(&'static str, String)> {
    let of = |(builder, files)| methods(builder, files).into_iter().map(move |method| (builder, method));
    let mut found: BTreeSet<_> = BUILDERS.into_iter().flat_map(of).collect();
    found.extend(LIMITS.map(|limit| ("Limits", limit.to_owned())));
    // A variant of `creates`.
    found.remove(&("ProcedureBuilder", "creates_untracked".to_owned()));
    found.retain(|(_, name)| !HOLDERS.contains(&name.as_str()));
    found
}

/// The public methods of a builder that take it and return it, and are not hidden.
fn methods(builder: &str, files: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files {
        let text = read(file);
        // A macro makes a method of each row of this table.
        let table = text.split("\nsettings! {").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap_or_default();
        let rows = table.lines().filter(|line| line.ends_with(';')).filter_map(|line| line.split(':').next());
        found.extend(rows.map(|name| name.trim().to_owned()));
        let mut inside = false;
        let mut hidden = false;
        for line in text.lines() {
            if line.starts_with("impl") {
                inside = line.contains(builder) || line.contains("PostgresStore");
            }
            hidden |= line.contains("#[doc(hidden)]");
            if let Some(rest) = line.trim_start().strip_prefix("pub fn ") {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                let signature = text[text.find(line).unwrap_or_default()..].split('{').next().unwrap_or_default();
                let sets = signature.contains("self,") || name == "allow_no_procedures";
                if inside
                    && sets
                    && !hidden
                    && !signature.contains('&') | signature.contains("Fn(")
                    && signature.contains("-> Self")
                {
                    found.insert(name.to_owned());
                }
                hidden = false;
            }
        }
    }
    found
}

/// The lines of code of the library, of which SQL and Lua are a part, and of tests and tools in every language. Generated lines are neither's,
/// and examples are documentation.
fn lines() -> [usize; 2] {
    let [mut library, mut tools] = [0; 2];
    for language in ["rs", "sql", "lua", "go", "java", "js", "mjs", "py", "ts"] {
        for (file, text) in files(language) {
            let comment = match language {
                "lua" | "sql" => "--",
                "py" => "#",
                _ => "//",
            };
            let count = |text: &str| {
                text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(comment)).count()
            };
            let name = file.to_string_lossy();
            if name.starts_with("examples/") || ["/generated/", "/gen/", ".pb.go"].iter().any(|it| name.contains(it)) {
                continue;
            }
            let of_library = ["build.rs", "src/", "crates/", "migrations/"].iter().any(|it| name.starts_with(it))
                && !name.contains("/tests/")
                && !name.ends_with("tests.rs");
            let code = if of_library { count(without_tests(&text)) } else { 0 };
            library += code;
            tools += count(&text) - code;
        }
    }
    [library, tools]
}

fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests").map_or(text, |(code, _)| code)
}

/// How many doc comments begin so.
fn beginning_with(text: &str, begins: &[&str]) -> usize {
    let doc = |line: &str| {
        line.trim_start().strip_prefix("///").or_else(|| line.trim_start().strip_prefix("//!")).map(str::to_owned)
    };
    let mut before = None;
    let mut count = 0;
    for line in text.lines() {
        let now = doc(line);
        if before.is_none()
            && now.as_deref().is_some_and(|text| begins.iter().any(|begin| text.trim_start().starts_with(begin)))
        {
            count += 1;
        }
        before = now;
    }
    count
}

fn comments_of(text: &str) -> String {
    text.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("//"))
        .fold(String::new(), |all, line| all + line + "\n")
}

fn occurrences(text: &str, words: &[&str]) -> usize {
    let text = text.to_lowercase();
    words.iter().map(|word| text.matches(word).count()).sum()
}

fn outside_of_code(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The Markdown that people read: all but results of runs.
fn pages() -> BTreeMap<PathBuf, String> {
    files("md").into_iter().filter(|(page, _)| !page.starts_with("results")).collect()
}

fn read(file: &str) -> String {
    fs::read_to_string(top().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The crates, by the folders of their sources: the library, what is published beside it, the tools and the examples.
fn crates() -> BTreeMap<String, Crate> {
    let mut crates: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (file, text) in files("rs") {
        let file = file.to_string_lossy();
        let parts: Vec<_> = file.split('/').collect();
        let Some(source) = parts.iter().position(|part| *part == "src" && parts[0] != "tests") else { continue };
        // A program in `src/bin` is a crate of its own.
        let inside = if parts[source + 1] == "bin" { source + 3 } else { source + 1 };
        let (source, inside) = parts.split_at(inside);
        crates.entry(source.join("/")).or_default().push((inside.join("/"), text));
    }
    crates.into_iter().map(|(source, files)| (source, Crate::new(files))).collect()
}

/// The files of this project with this extension, but for this one.
fn files(extension: &str) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![top()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_aside =
                name.starts_with('.') && name != ".github" || ["target", "node_modules", "generated"].contains(&&*name);
            // A build writes the second.
            if path.is_symlink() || is_aside || name == "house.rs" || path.ends_with("tests/pages/migrations") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).expect("a text");
                files.insert(path.strip_prefix(top()).expect("in it").to_owned(), text);
            }
        }
    }
    files
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}
