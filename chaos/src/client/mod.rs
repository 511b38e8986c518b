//! Those who call: they want each operation done once, and go about it as clients do.

mod backoff;
mod calls;
mod workload;

pub(crate) use calls::Calls;
pub(crate) use workload::Workload;
