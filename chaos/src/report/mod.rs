//! The output for a person, at the end of a run.

mod story;
mod table;

pub(crate) use self::{
    story::write_stories,
    table::{LEGEND, Table},
};
