//! The functions for operators, who look at a key, release it, and erase what a record holds. The table's owner is no superuser here, and the
//! operators' role has no rights but those that it is granted.

mod erase;
mod evict;
mod inspection;
mod operated;
mod program;
mod release;
mod rights;
mod terminal;

pub(crate) use self::operated::Operated;
