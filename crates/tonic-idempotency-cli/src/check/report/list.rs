//! The promises as a page.

use std::fmt::Write as _;

use crate::{
    check::promises::{GROUPS, SPECIFICATION},
    failure::Failure,
    output,
};

/// Prints all promises.
pub(in crate::check) fn list() -> Result<(), Failure> {
    let mut page = format!(
        "# Promises\n\n\
         Version {SPECIFICATION} of what a server with idempotency keys owes its clients, over gRPC or Connect and in any language.\n\
         `tonic-idempotency check` finds out from outside whether a server keeps them, and writes this page: `check --list`.\n"
    );
    for group in GROUPS {
        let _ = write!(page, "\n## {}\n\n| | promise | because | needs |\n|---|---|---|---|\n", group.title);
        for promise in group.promises {
            let needs: Vec<_> = promise.needs.iter().map(|need| format!("`{}`", need.flag())).collect();
            let (code, sentence, reason) = (promise.code, promise.sentence, promise.reason);
            let _ = writeln!(page, "| {code} | {sentence} | {reason} | {} |", needs.join(", "));
        }
    }
    output::line(page.trim_end())
}
