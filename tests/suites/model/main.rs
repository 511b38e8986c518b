//! A model of the protocol. A model checker, `stateright`, explores all of its states.
//!
//! One user calls one procedure several times, with one key and one request. Each attempt is handled by a server
//! process of its own: in reserved mode, in transactional mode, or as the Go interceptor does it. Servers crash, or
//! pause and wake up too late. Requests and answers are lost. Claims arrive after their sender has given up, and
//! COMMITs succeed after their client has gone. Leases and retentions end, and the database restarts. All of this
//! happens in any order, as often as a scenario allows. The checker visits every state that can follow, and checks the
//! properties there.
//!
//! The model knows nothing of the code. It shows what the protocol needs for its promises and, guard by guard, which
//! promise breaks without the guard. Before you change a statement, or the order of two, change the model.
//!
//! | module | holds |
//! |---|---|
//! | `world` | the state at one moment |
//! | `record` | the statements on the record, each of them one atomic step |
//! | `reserved`, `transactional`, `go_interceptor` | the steps of a server in each mode |
//! | `claim` | a reserved call's claim until it is answered |
//! | `environment` | the clock, the database and lost messages |
//! | `properties`, `sights` | conditions that hold in every state, and conditions that must be seen in some |
//! | `guards` | the guards of the protocol; each is left out once, and the checker must notice |
//! | `scenario`, `scenarios`, `explore` | the servers of each exploration, the failures, and the exploration itself |
//!
//! # The properties
//!
//! "One effect" refers to one life of a record: from the first claim of a key to the end of the retention.
//!
//! | where | what holds |
//! |---|---|
//! | everywhere | a completed record does not change while it lives, and a replay repeats it |
//! | | every answer and every record is of something that was done; an answer that nothing was done is true |
//! | | there is one effect, and all answers agree, unless a lease ended without an outcome |
//! | | a worker whose reservation was taken over changes nothing |
//! | | an abandoned call is run again only if a reconciler allows it |
//! | | every run comes to rest from every state, and then the next claim is answered |
//! | a server in transactional mode | its effect is there exactly if its record is, whatever the other servers are |
//! | | its answer is always the one in the record |
//! | only such servers | one effect, whatever the clock does |
//! | policy `Refuse` | one effect, whatever the clock does |
//! | policy `Reconcile` | one effect, if the reconciler is truthful and no worker goes on after the end of a lease |
//!
//! # What is left out
//!
//! | left out | because |
//! |---|---|
//! | clients that hang up | the call goes on, and the properties apply to every answer, received or not |
//! | when a client tries again | an attempt may begin at any time, while others run or after they were answered |
//! | duplicates that wait | the attempt at the end of a wait could as well have begun then |
//! | other keys, users, requests | they share nothing with this one, except a lock by chance |
//! | the length of a lease | a running lease may end next; a heartbeat in time means that it does not |
//! | the news that a lease is lost | a handler that gets it stops with an error, as any handler may at any time |
//! | settlements that arrive late | a slow worker that sends them late is the same |
//! | unprotected handlers | nothing is promised if the store does not answer and the policy is to go on |
//! | how a transaction stores a final error | the handler's writes are undone, and the record is committed |
//! | the steps within a statement | the database runs all of them or none |

mod claim;
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
