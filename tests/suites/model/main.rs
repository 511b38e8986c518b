//! A model of the protocol, explored to its last state by a model checker, `stateright`.
//!
//! One user calls one procedure with one key and one request, several times. Each attempt is handled by a server
//! process of its own: in reserved mode, in transactional mode, or as FUN-15 does it. Servers crash, or pause and wake
//! up too late; requests and answers are lost; claims land when nobody waits for them any more; COMMITs go through
//! though their client is gone; leases and retentions end; the database restarts: in any order, as often as a scenario
//! allows. The checker visits every state that this can lead to, and looks whether the properties hold there.
//!
//! The model knows nothing of the code. It says what the protocol has to be like for its promises to be kept and, guard
//! by guard, what becomes of them otherwise. Whoever changes a statement, or the order of two, changes the model first.
//!
//! | module | holds |
//! |---|---|
//! | `world` | what there is at one moment |
//! | `record` | the statements on the record, each of them one atomic step |
//! | `reserved`, `transactional`, `go_interceptor` | what a server does in each mode, step by step |
//! | `environment` | what happens by itself |
//! | `properties`, `sights` | what holds in every state, and what has to be seen in some |
//! | `guards` | what the protocol rests on; each is left out once, to see it found |
//! | `scenario`, `scenarios`, `explore` | who meets whom, what may go wrong, and how that is explored |
//!
//! # The properties
//!
//! "One effect" is meant for one life of a record: from the first claim of a key to the end of the retention.
//!
//! | where | what holds |
//! |---|---|
//! | everywhere | a completed record does not change while it lives, and a replay repeats it |
//! | | what is answered or recorded was done; who is told that nothing was done is told the truth |
//! | | there is one effect, and all answers agree, unless a lease ended without an outcome |
//! | | a worker whose reservation was taken over changes nothing |
//! | | an abandoned call is not run again but on a reconciler's word |
//! | | from wherever it is, a run comes to rest, and then the next claim is answered |
//! | a server in transactional mode | its effect is there exactly if its record is, beside whatever servers |
//! | | it answers what the record says, and nothing else |
//! | only such servers | one effect, whatever the clock does |
//! | policy `Refuse` | one effect, whatever the clock does |
//! | policy `Reconcile` | one effect, if the reconciler is truthful and nobody works on after the end of a lease |
//!
//! # What is left out
//!
//! | left out | because |
//! |---|---|
//! | clients that hang up | the call goes on; each answer is held to the properties, heard or not |
//! | when a client tries again | an attempt may begin at any time, while others run or after they were answered |
//! | duplicates that wait | a wait ends with an attempt that could as well have begun then |
//! | other keys, users, requests | they share nothing with this one but, by chance, a lock |
//! | the length of a lease | a lease that runs may end next; a heartbeat in time is one that lets it run |
//! | the news that a lease is lost | a handler that hears it stops with an error, as any handler may at any time |
//! | settlements that land late | a worker that is slow sends them as late |
//! | handlers run unprotected | where the store does not answer and the policy is to go on, nothing is promised |
//! | how a transaction keeps an error | the handler's writes are undone, and the record is committed all the same |
//! | the steps within a statement | the database runs it as one, or not at all |

mod environment;
mod explore;
mod go_interceptor;
mod guards;
mod properties;
mod record;
mod reserved;
mod scenario;
mod scenarios;
mod sights;
mod transactional;
mod world;
