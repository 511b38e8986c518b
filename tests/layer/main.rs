//! The layer around a real tonic server, called by a real client.

mod build;
mod cancellation;
mod degradation;
mod duplicates;
mod encoding;
mod harness;
mod life;
mod pass_through;
mod rejections;
mod status;
mod wrapping;
