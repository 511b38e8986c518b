//! The rooms of a folder: the files and folders in it, but for `mod.rs`. An arrow leads from a room to one from which it imports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{crates, read};
use crate::circles::{Crate, name};

/// The most arrows and mutual pairs of these folders.
const BUDGETS: [(&str, usize, usize); 3] =
    [("src/engine", 87, 0), ("src/store/sql", 50, 1), ("src/store/postgres", 15, 0)];

/// The folders of which ARCHITECTURE.md has to show the rows.
const WITH_ROWS: [&str; 2] = ["src/engine", "src/store/sql"];

/// The room in a row that stands for `mod.rs`.
const OF_MOD: &str = "run";

/// Arrows that may lead up, or back: the folder, from where to where, and why.
const UPWARD: [(&str, &str, &str, &str); 1] = [(
    "src/store/sql",
    "driver",
    "transaction",
    "the session of a driver takes what is its own from an `InTransaction`",
)];

#[test]
#[expect(clippy::print_stdout, reason = "the table of rooms")]
fn have_no_more_arrows_than_their_budgets() {
    let folders = folders();
    let (mut table, mut heavy) = (String::new(), Vec::new());
    for (path, most_arrows, most_pairs) in BUDGETS {
        let folder = &folders[path];
        let (rooms, arrows, pairs) = (folder.rooms.len(), folder.arrows().count(), folder.mutual_pairs().len());
        writeln!(
            table,
            "{path:<18} {rooms:>3} rooms   {arrows:>3} arrows, at most {most_arrows:>3}   {pairs:>2} mutual pairs, at most {most_pairs:>2}"
        )
        .expect("a string");
        if arrows > most_arrows || pairs > most_pairs {
            heavy.push(path);
        }
    }
    println!("{table}");
    assert!(heavy.is_empty(), "beyond their budgets: {heavy:?}\n{table}");
}

/// Of two neighbours in a folder, one at most imports from the other.
#[test]
fn do_not_import_from_each_other() {
    let mut wrong = BTreeSet::new();
    for (path, folder) in folders() {
        for (one, other) in folder.mutual_pairs() {
            if !may_lead_up(&path, &one, &other) && !may_lead_up(&path, &other, &one) {
                let (there, back) = (folder.imports(&one, &other), folder.imports(&other, &one));
                wrong.insert(format!("{path}: {}", there.chain(back).collect::<Vec<_>>().join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "these import from each other: {wrong:#?}");
}

/// In ARCHITECTURE.md, the rooms of a folder stand in rows. They import from their own row and those below.
#[test]
fn import_from_their_rows_and_those_below() {
    let folders = folders();
    let blocks = rows();
    let missing: Vec<_> = WITH_ROWS.iter().filter(|path| !blocks.contains_key(**path)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md lacks the rows of {missing:?}");
    let mut wrong = BTreeSet::new();
    for (path, row_of) in blocks {
        let folder = folders.get(&path).unwrap_or_else(|| panic!("{path}, of ARCHITECTURE.md, is no folder"));
        let row = |room: &str| row_of.get(if room == MOD { OF_MOD } else { room });
        for room in folder.rooms.iter().filter(|room| row(room).is_none()) {
            wrong.insert(format!("{path}: {room} is in no row"));
        }
        for room in row_of.keys().filter(|room| !folder.rooms.contains(*room) && *room != OF_MOD) {
            wrong.insert(format!("{path}: {room} is in a row, and no room"));
        }
        for (from, to) in folder.imports.keys().filter(|(from, to)| row(from) < row(to)) {
            if !may_lead_up(&path, from, to) {
                wrong.extend(folder.imports(from, to).map(|import| format!("{path}: {import} leads up")));
            }
        }
    }
    assert!(wrong.is_empty(), "against the rows of ARCHITECTURE.md: {wrong:#?}");
}

/// An exception that is not needed any more is taken out.
#[test]
fn need_each_arrow_that_may_lead_up() {
    let (folders, rows) = (folders(), rows());
    let is_needed = |path: &str, from: &str, to: &str| {
        let is_there = |from: &str, to: &str| folders.get(path).is_some_and(|it| it.imports(from, to).next().is_some());
        let leads_up = rows.get(path).is_some_and(|row_of| row_of.get(from) < row_of.get(to));
        is_there(from, to) && (leads_up || is_there(to, from))
    };
    let unneeded: Vec<_> = UPWARD.iter().filter(|(path, from, to, _)| !is_needed(path, from, to)).collect();
    assert!(unneeded.is_empty(), "these arrows are gone, or lead down: {unneeded:#?}");
}

fn may_lead_up(folder: &str, from: &str, to: &str) -> bool {
    UPWARD.iter().any(|(of, one, other, _)| (*of, *one, *other) == (folder, from, to))
}

/// The row of each room in the blocks of ARCHITECTURE.md that begin with the path of a folder.
fn rows() -> BTreeMap<String, BTreeMap<String, u32>> {
    let page = read("ARCHITECTURE.md");
    let blocks =
        page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("\nsrc/")?.split_once('\n'));
    let rows = blocks.filter(|(folder, _)| !folder.contains([' ', '.']));
    rows.map(|(folder, rows)| {
        let row = |line: &str| {
            let (number, rooms) = line.split_once(' ').expect("a number, and rooms");
            let number = number.parse().expect("the number of a row");
            rooms.split_whitespace().map(|room| (room.to_owned(), number)).collect::<Vec<_>>()
        };
        (format!("src/{folder}"), rows.lines().flat_map(row).collect())
    })
    .collect()
}

/// The `mod.rs`, or `lib.rs`, among the rooms of its folder.
pub(super) const MOD: &str = "mod.rs";

/// A folder of modules.
#[derive(Default)]
pub(super) struct Folder {
    /// Without `mod.rs`.
    pub(super) rooms: BTreeSet<String>,
    /// The imports from file to file, by the rooms from which and to which they lead. `mod.rs` is a room here.
    pub(super) imports: BTreeMap<(String, String), BTreeSet<(String, String)>>,
}

impl Folder {
    fn new(module: &[String], sources: &Crate) -> Self {
        let room = |of: &[String]| {
            let inside = of.strip_prefix(module)?;
            Some(inside.first().map_or(MOD, String::as_str).to_owned())
        };
        let mut folder = Self::default();
        for (from, targets) in sources.imports() {
            let Some(one) = room(from) else { continue };
            for to in targets {
                if let Some(other) = room(to).filter(|other| *other != one) {
                    folder.imports.entry((one.clone(), other)).or_default().insert((name(from), name(to)));
                }
            }
            if one != MOD {
                folder.rooms.insert(one);
            }
        }
        folder
    }

    /// The arrows, between rooms.
    fn arrows(&self) -> impl Iterator<Item = &(String, String)> {
        self.imports.keys().filter(|(from, to)| from != MOD && to != MOD)
    }

    fn mutual_pairs(&self) -> BTreeSet<(String, String)> {
        let arrows: BTreeSet<_> = self.arrows().cloned().collect();
        arrows.iter().filter(|(from, to)| from < to && arrows.contains(&(to.clone(), from.clone()))).cloned().collect()
    }

    /// The imports of a room from another, file by file.
    fn imports(&self, from: &str, to: &str) -> impl Iterator<Item = String> {
        let imports = self.imports.get(&(from.to_owned(), to.to_owned())).into_iter().flatten();
        imports.map(|(from, to)| format!("{from} → {to}"))
    }
}

/// The folders of all crates, by their paths.
pub(super) fn folders() -> BTreeMap<String, Folder> {
    let mut folders = BTreeMap::new();
    for (source, sources) in crates() {
        for module in sources.imports().keys() {
            for depth in 0..module.len() {
                let path = [source.as_str()].into_iter().chain(module[..depth].iter().map(String::as_str));
                let path = path.collect::<Vec<_>>().join("/");
                folders.entry(path).or_insert_with(|| Folder::new(&module[..depth], &sources));
            }
        }
    }
    folders
}
