//! Claims and look-ups of keys, and the state that all calls share: the limit of records, and the position of a sweep.

pub(super) mod claim;
pub(super) mod look_up;
mod record_limit;
mod sweep_cursor;

pub(super) use self::{
    record_limit::{AdmittedCall, RecordAdmission, RecordLimit},
    sweep_cursor::SweepCursor,
};
