//! What a person gets to read in the end.

mod story;
mod table;

pub(crate) use self::{
    story::write_stories,
    table::{LEGEND, Table},
};
