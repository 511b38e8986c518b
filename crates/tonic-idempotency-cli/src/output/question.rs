//! Questions to a person.

use std::io::{self, IsTerminal as _, Write as _};

use crate::failure::Failure;

/// Returns whether a person can answer: input and questions go to a terminal.
pub(crate) fn is_in_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for consent. Anything but `y` or `yes` is none.
pub(crate) fn consents(question: &str) -> Result<bool, Failure> {
    write!(anstream::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
