//! The clients, which want each operation done once, and behave as real clients do.

mod backoff;
mod calls;
mod workload;

pub(crate) use calls::Calls;
pub(crate) use workload::Workload;
