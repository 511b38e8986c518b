//! The layer around a real tonic server, called by a real client.

mod bad_input;
mod build;
mod cancellation;
mod compression;
mod degradation;
mod duplicates;
mod encoding;
mod final_errors;
mod harness;
mod leases;
mod life;
mod limits;
mod metadata;
mod pass_through;
mod raw;
mod reconcile;
mod recovery;
mod rejections;
mod replay_cache;
mod shutdown;
mod status;
mod waiting;
mod watched;
mod witness;
mod wrapping;
