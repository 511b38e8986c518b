//! Settings that a role, a database or a pooler may have, and encodings: the migrations, the statements of calls and those of operators
//! mean the same with each.

#[allow(dead_code, reason = "the suite `store` uses few of them, and the suite `store-elsewhere` all")]
pub(crate) mod everything;

mod few;
