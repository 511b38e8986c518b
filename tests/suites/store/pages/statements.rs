//! The SQL of a page: its statements, and what the comment above them says.

use std::fs;

use crate::prelude::*;

/// Whether the packs are installed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Packs {
    None,
    Both,
}

/// Statements that one role runs, one after the other.
pub(super) struct Statements {
    /// The role that runs them: `-- as the owner of the table`.
    pub(super) role: String,
    /// A table or a pack that has to be there: `-- as the worker; needs jobs (id uuid, payload text)`, or `needs the pack of partitions`.
    /// Or the kind of the table of keys: `needs a table without partitions`.
    pub(super) needs: Option<String>,
    /// The types of the parameters of the statement: `takes uuid, text`.
    pub(super) takes: Option<String>,
    pub(super) text: String,
}

impl Statements {
    /// Returns the table that they need, with its columns.
    pub(super) fn table(&self) -> Option<&str> {
        self.needs.as_deref().filter(|needs| needs.contains(" ("))
    }

    /// Whether what they need is there.
    pub(super) fn can_run(&self, packs: Packs) -> bool {
        match self.needs.as_deref() {
            None => true,
            Some("the pack of limits" | "the pack of partitions") => packs == Packs::Both,
            Some("a table without partitions") => partitions().is_none(),
            Some(needs) => {
                assert!(self.table().is_some(), "{needs}");
                true
            }
        }
    }

    /// Returns each of them as psql sends it: it ends at a semicolon at the end of a line, but not inside of a quoted body.
    pub(super) fn each(&self) -> Vec<String> {
        let mut each = vec![String::new()];
        for line in self.text.lines() {
            let statement = each.last_mut().expect("one");
            *statement = format!("{statement}{line}\n");
            let code = line.split("-- ").next().expect("a line").trim_end();
            if code.ends_with(';') && statement.matches("$$").count() % 2 == 0 {
                each.push(String::new());
            }
        }
        let last = each.pop().expect("one");
        assert_eq!(last.trim(), "", "a statement ends with a semicolon");
        each
    }
}

/// The statements of a page, in its order.
pub(super) fn statements_of(page: &str) -> Vec<Statements> {
    let path = format!("{}/../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).expect("a page");
    let blocks = text.split("```sql\n").skip(1).map(|block| block.split("```").next().expect("its text"));
    let mut statements: Vec<Statements> = Vec::new();
    for block in blocks {
        assert!(block.trim_start().starts_with("-- as "), "{page}: who runs this?\n{block}");
        for line in block.lines() {
            match (line.trim_start().strip_prefix("-- as "), statements.last_mut()) {
                (Some(role), _) => {
                    let after = |word| role.split("; ").find_map(|part| part.strip_prefix(word)).map(str::to_owned);
                    statements.push(Statements {
                        role: role.split("; ").next().expect("a role").to_owned(),
                        needs: after("needs "),
                        takes: after("takes "),
                        text: String::new(),
                    });
                }
                (None, Some(statements)) => statements.text = format!("{}{line}\n", statements.text),
                (None, None) => unreachable!("a block begins with a role"),
            }
        }
    }
    assert!(!statements.is_empty(), "{page} has no statement");
    statements
}

/// The pages with SQL.
pub(super) fn pages_with_sql() -> Vec<String> {
    let docs = format!("{}/../docs", env!("CARGO_MANIFEST_DIR"));
    let mut pages = Vec::new();
    for folder in [docs.clone(), format!("{docs}/decisions")] {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md")
                && fs::read_to_string(&path).expect("a page").contains("```sql")
            {
                pages.push(path.file_stem().expect("a name").to_string_lossy().into_owned());
            }
        }
    }
    pages.sort();
    pages
}
