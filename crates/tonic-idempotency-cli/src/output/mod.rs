//! The answers on the terminal: tables, times and questions.

mod question;
mod table;
mod time;

pub(crate) use self::{
    question::{consents, is_in_terminal},
    table::Table,
    time::{ago, ahead, duration},
};

use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use indicatif::HumanCount;

use crate::failure::Failure;

/// The style of what needs a person.
pub(crate) const ALERT: Style = AnsiColor::Yellow.on_default();

/// The style of what is as it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();

/// Writes a line to standard output, without colours if it is no terminal, or if `NO_COLOR` is set.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    Ok(writeln!(anstream::stdout(), "{text}")?)
}

/// Writes a line to standard error, for a person: standard output is for programs.
pub(crate) fn note(text: &str) -> Result<(), Failure> {
    Ok(writeln!(anstream::stderr(), "{text}")?)
}

/// Returns a number of things, such as `1 key` or `412,093 records`.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

/// Returns a text of the database as a terminal may show it: without what controls the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| format!("{word:?}"), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_database_do_not_control_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\n\u{9b}c\u{7f}ü"), "a [2Jb  c ü");
    }
}
