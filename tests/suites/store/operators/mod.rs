//! The functions for operators, who look at a key, and release it. The table's owner is no superuser here, and the operators' role has
//! no rights but those that it is granted.

mod inspection;
mod operated;
mod program;
mod release;
mod rights;
mod terminal;

pub(crate) use self::operated::Operated;
