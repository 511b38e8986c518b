//! Reads the migrations, and writes what `src/store/files.rs` includes: the files in their order, the routines and the checks that they make,
//! and the routines that the API's role is granted. A new file in `migrations/core/` is a new migration.

use std::{
    collections::BTreeMap,
    env,
    fmt::{self, Write as _},
    fs, io,
    path::{Path, PathBuf},
    process,
};

/// The folder of the core, whose files are numbered without a gap.
const CORE: &str = "migrations/core";

/// The other SQL that databases keep the checksum of, or that runs in the same way.
const OTHERS: [&str; 2] = ["migrations/packs", "src/migrations"];

/// The text before the names of granted routines.
const GRANTS: &str = "p.proname IN (";

/// The prefix of the names of all routines.
const PREFIX: &str = "idempotency_";

fn main() {
    for folder in OTHERS.into_iter().chain([CORE]) {
        println!("cargo::rerun-if-changed={folder}");
    }
    if env::var_os("CARGO_FEATURE_SQL").is_none() {
        return;
    }
    let [top, out] =
        ["CARGO_MANIFEST_DIR", "OUT_DIR"].map(|name| PathBuf::from(env::var_os(name).expect("cargo sets it")));
    let problems = match Migrations::read(&top) {
        Ok(migrations) => match fs::write(out.join("migrations.rs"), migrations.code()) {
            Ok(()) => return,
            Err(error) => vec![Problem::of(&out, &error)],
        },
        Err(problems) => problems,
    };
    for problem in problems {
        println!("cargo::error={problem}");
    }
    process::exit(1);
}

/// Something that is wrong with a file.
pub(crate) struct Problem {
    file: PathBuf,
    /// `None`: the file as a whole.
    line: Option<usize>,
    what: String,
}

impl Problem {
    fn of(file: &Path, error: &io::Error) -> Self {
        Self { file: file.to_owned(), line: None, what: error.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// A routine that a file grants.
struct Grant {
    file: PathBuf,
    line: usize,
    name: String,
    /// The first list is that of the API's role, and the other that of operators.
    of_api: bool,
}

/// A migration of the core.
struct Migration {
    file: PathBuf,
    name: String,
    sql: String,
}

/// The core.
pub(crate) struct Migrations {
    /// In their order.
    files: Vec<Migration>,
    /// The routines, and the number of the first file that makes each. All names are without the prefix.
    routines: BTreeMap<String, usize>,
    granted: Vec<String>,
    checks: Vec<String>,
    /// The number that `tenant.idempotency_version()` returns.
    version: u32,
}

impl Migrations {
    /// Reads and checks the files below this directory.
    pub(crate) fn read(top: &Path) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let files = numbered(top).unwrap_or_else(|found| {
            problems = found;
            Vec::new()
        });
        for folder in OTHERS {
            for file in sql_files(top, folder).map_err(|problem| vec![problem])? {
                match fs::read_to_string(top.join(&file)) {
                    Ok(sql) => problems.extend(unsafe_bytes(&file, &sql)),
                    Err(error) => problems.push(Problem::of(&file, &error)),
                }
            }
        }
        problems.extend(files.iter().flat_map(|migration| unsafe_bytes(&migration.file, &migration.sql)));
        let routines = routines(&files);
        let granted = granted(&files);
        let unknown = granted.iter().filter(|grant| !routines.contains_key(&grant.name));
        problems.extend(unknown.map(|grant| Problem {
            file: grant.file.clone(),
            line: Some(grant.line),
            what: format!("{PREFIX}{} is granted, and no file makes it", grant.name),
        }));
        let version = version(&files);
        if problems.is_empty() && version.is_none() {
            let what = format!("no file makes {PREFIX}version(), which SELECTs a number");
            problems.push(Problem { file: CORE.into(), line: None, what });
        }
        match version {
            Some(version) if problems.is_empty() => {
                let granted = granted.into_iter().filter(|grant| grant.of_api).map(|grant| grant.name).collect();
                Ok(Self { checks: checks(&files), files, routines, granted, version })
            }
            _ => Err(problems),
        }
    }

    /// Returns the constants, as Rust.
    pub(crate) fn code(&self) -> String {
        let mut code = String::new();
        let mut list = |doc: &str, name: &str, of: &str, items: Vec<String>| {
            let _ = writeln!(code, "/// {doc}\npub(crate) const {name}: [{of}; {}] = [", items.len());
            items.iter().for_each(|item| code.push_str(&format!("    {item},\n")));
            code.push_str("];\n\n");
        };
        let file = |it: &Migration| {
            format!("({:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{}\")))", it.name, it.file.display())
        };
        let text = |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect();
        list(
            "The names and the SQL of the migrations of the core, in their order.",
            "FILES",
            "(&str, &str)",
            self.files.iter().map(file).collect(),
        );
        list(
            "The names of the routines that the files make, and the number of the first file that makes each.",
            "ROUTINES",
            "(&str, u32)",
            self.routines.iter().map(|(name, number)| format!("({name:?}, {number})")).collect(),
        );
        list("The names of the routines that the API's role is granted.", "GRANTED", "&str", text(&self.granted));
        list(
            "The names of the checks of the table that do not depend on resource types.",
            "CHECKS",
            "&str",
            text(&self.checks),
        );
        let _ = writeln!(
            code,
            "/// The version of the functions that the store calls, as `tenant.idempotency_version()` returns it.\n\
             pub(crate) const VERSION: i32 = {};",
            self.version
        );
        code
    }
}

/// Returns the files of the core in their order.
fn numbered(top: &Path) -> Result<Vec<Migration>, Vec<Problem>> {
    let (mut by_number, mut problems) = (BTreeMap::<usize, Vec<Migration>>::new(), Vec::new());
    for file in sql_files(top, CORE).map_err(|problem| vec![problem])? {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let parts = stem.strip_prefix('V').and_then(|stem| stem.split_once("__"));
        let number = parts.and_then(|(number, name)| Some((number.parse().ok()?, name.to_owned())));
        match (number, fs::read_to_string(top.join(&file))) {
            (Some((number, name)), Ok(sql)) => by_number.entry(number).or_default().push(Migration { file, name, sql }),
            (None, Ok(_)) => {
                problems.push(Problem { file, line: None, what: "its name is not V<number>__<name>.sql".to_owned() });
            }
            (_, Err(error)) => problems.push(Problem::of(&file, &error)),
        }
    }
    for (expected, (number, files)) in (1..).zip(&by_number) {
        let file = files[0].file.clone();
        if files.len() > 1 {
            let what = format!("{} has the same number", files[1].file.display());
            problems.push(Problem { file, line: None, what });
        } else if *number != expected {
            problems.push(Problem { file, line: None, what: format!("there is no V{expected}__<name>.sql before it") });
            break;
        }
    }
    if problems.is_empty() { Ok(by_number.into_values().flatten().collect()) } else { Err(problems) }
}

/// Returns the SQL files of a folder, relative to the top.
fn sql_files(top: &Path, folder: &str) -> Result<Vec<PathBuf>, Problem> {
    let entries = fs::read_dir(top.join(folder)).map_err(|error| Problem::of(Path::new(folder), &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| Problem::of(Path::new(folder), &error))?.file_name();
        let file = Path::new(folder).join(name);
        if file.extension().is_some_and(|extension| extension == "sql") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Finds what changes on its way into a database: a backslash is an escape for some runners and settings, other encodings have other bytes
/// beyond ASCII, and git's `autocrlf` adds carriage returns, which changes each checksum.
fn unsafe_bytes(file: &Path, sql: &str) -> Vec<Problem> {
    let found = (1..).zip(sql.split('\n')).filter_map(|(line, text)| {
        let character = text.chars().find(|it| !it.is_ascii() || *it == '\\' || *it == '\r')?;
        Some(Problem { file: file.to_owned(), line: Some(line), what: format!("it has the character {character:?}") })
    });
    found.collect()
}

fn routines(files: &[Migration]) -> BTreeMap<String, usize> {
    let mut made = BTreeMap::new();
    for (number, migration) in (1..).zip(files) {
        for (begin, _) in migration.sql.match_indices(&format!(" tenant.{PREFIX}")) {
            let (before, after) = migration.sql.split_at(begin);
            let is_made = ["FUNCTION", "PROCEDURE"].iter().any(|kind| {
                let before = before.strip_suffix(kind).unwrap_or_default();
                ["CREATE ", "CREATE OR REPLACE "].iter().any(|create| before.ends_with(create))
            });
            if is_made {
                let name = after.split('(').next().unwrap_or_default().trim_start_matches(&format!(" tenant.{PREFIX}"));
                made.entry(name.to_owned()).or_insert(number);
            }
        }
    }
    made
}

fn granted(files: &[Migration]) -> Vec<Grant> {
    let mut granted = Vec::new();
    for Migration { file, sql, .. } in files {
        for (list, (begin, _)) in sql.match_indices(GRANTS).enumerate() {
            let mut line = 1 + sql[..begin].matches('\n').count();
            let names = sql[begin..].split(')').next().unwrap_or_default();
            for (index, part) in names.split('\'').enumerate() {
                if index % 2 == 1 {
                    let name = part.trim_start_matches(PREFIX).to_owned();
                    granted.push(Grant { file: file.clone(), line, name, of_api: list == 0 });
                }
                line += part.matches('\n').count();
            }
        }
    }
    granted
}

fn checks(files: &[Migration]) -> Vec<String> {
    let table = files.first().map_or("", |migration| &migration.sql);
    let constraints = table.split("ADD CONSTRAINT ").skip(1).filter_map(|sql| sql.split_whitespace().next());
    constraints.filter(|name| name.contains("_ck_")).map(str::to_owned).collect()
}

/// Returns what the last definition of the function selects.
fn version(files: &[Migration]) -> Option<u32> {
    let definition =
        files.iter().rev().find_map(|it| it.sql.rsplit_once(&format!("FUNCTION tenant.{PREFIX}version()")));
    let (_, selected) = definition?.1.split_once(" SELECT ")?;
    selected.split_whitespace().next()?.parse().ok()
}
