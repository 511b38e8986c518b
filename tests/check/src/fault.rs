//! The ways in which the server can be wrong.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Has keys in no call.
    KnowsNoKeys,
    /// Looks for the answer, runs if there is none, and then stores it: nothing is reserved.
    CacheThenRun,
    /// Has records of its own at each server.
    CachePerServer,
    /// The key is not of one user.
    NoUser,
    /// The key is not of one procedure.
    NoProcedure,
    /// Compares no messages.
    NoHash,
    /// Remembers the message with the answer only: until then, any message waits for it.
    HashAtEnd,
    /// A message that is refused takes the record with it.
    MismatchEvicts,
    /// Compares the bytes of messages.
    RawHash,
    /// Compares the bytes of compressed messages as they arrive.
    HashCompressed,
    UnkeyedOverWeb,
    UnkeyedOverConnect,
    UnkeyedOverJson,
    /// Each form of a UUID is another key.
    KeyAsText,
    /// The values of a repeated header are one text.
    JoinsKeys,
    /// The first of several keys counts.
    FirstOfKeys,
    /// The 255 first characters of a key count.
    TruncatesKeys,
    EmptyIsAKey,
    /// A replay has the time of the replay.
    FreshResponse,
    HeadersLost,
    TrailersLost,
    /// An error is kept for one retry.
    ErrorKeptOnce,
    StatusStuck,
    /// Each other status of finished work is that of work.
    StatusTurnsBack,
    /// Each answer is marked as a replay.
    MarksAll,
    ExpiresGrows,
    ExpiresEarly,
    /// Reserves the key before the message has arrived, and keeps it if that never does.
    ReservesAtHeaders,
    /// A caller that hangs up frees its key, but does not stop its handler.
    FreedOnHangUp,
    /// A caller that does not read its answer frees its key.
    FreedIfUnread,
    /// The handler's effect comes at its beginning, and its record at its end.
    EffectFirst,
    /// Keeps its records in memory.
    MemoryOnly,
    /// A duplicate of a running call gets an empty response.
    EmptyInProgress,
    /// Its refusals have no details.
    PlainRefusals,
    /// Says that an error keeps its key, which it frees.
    SaysKept,
    /// A key in quotes or capitals is refused.
    RefusesForms,
    /// Calls without a key have headers about it.
    HeadersWithoutKey,
    /// Refuses retries, and repeats their token in the error.
    EchoesToken,
    /// Does so when it is asked for its types.
    ReflectionEchoesToken,
    /// Cuts replays off in their message.
    ReplaysHalf,
    /// Replays what is no answer of gRPC.
    ReplaysGarbage,
    /// Replays after a client has given up.
    ReplaysLate,
}

/// The fault of this server, if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults(pub(crate) Option<Fault>);

impl Faults {
    pub(crate) fn has(self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }
}
