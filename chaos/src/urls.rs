//! The ways to a database.

/// The URLs of a server's database.
#[derive(Clone, Debug)]
pub(crate) struct Urls {
    /// Of the API's own connections; `None` if it is the same.
    pub(crate) api: Option<String>,
    pub(crate) database: String,
}
