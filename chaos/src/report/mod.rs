//! The output for a person, at the end of a run.

mod markdown;
mod story;
mod table;

pub(crate) use self::{
    markdown::MarkdownTable,
    story::write_stories,
    table::{LEGEND, Table},
};
