//! The limits that clients and servers have in common.

use std::time::Duration;

/// The size of the largest message that is read by default, in bytes: that of tonic and of other implementations of gRPC.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The longest time that `WaitOperation` waits, and the default of its `timeout`.
pub const WAIT_OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
