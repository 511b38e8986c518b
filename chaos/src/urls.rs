//! The ways to a database.

/// The URLs of a server's database.
#[derive(Clone, Debug)]
pub(crate) struct Urls {
    /// Of the API's own connections; `None` if it is the same.
    pub(crate) api: Option<String>,
    pub(crate) database: String,
    /// `None` if PostgreSQL keeps the records.
    pub(crate) redis: Option<Redis>,
}

/// The Redis Cluster that keeps the records.
#[derive(Clone, Debug)]
pub(crate) struct Redis {
    /// The number of replicas that a write has to reach.
    pub(crate) replicas: u32,
    pub(crate) urls: Vec<String>,
}
