//! A model of the protocol. A model checker, `stateright`, explores all of its states.
//!
//! One user calls one procedure several times, with one key and one request. Each attempt is handled by a server
//! process of its own: in reserved mode, in transactional mode, or as the Go interceptor does it. Servers crash, or
//! pause and wake up too late. Requests and answers are lost. Claims arrive after their sender has given up, and
//! COMMITs succeed after their client has gone. A pooler answers with an error what was carried out. The database
//! refuses a claim, is slow, or cannot be reached, and handlers run unprotected by policy. Transactions of other users
//! fill the pool. Leases and retentions end, and the database restarts. All of this happens in any order, as often as a
//! scenario allows. The checker visits every state that can follow, and checks the properties there.
//!
//! The model knows nothing of the code. It shows what the protocol needs for its promises and, guard by guard, which
//! promise breaks without the guard. Before you change a statement, or the order of two, change the model.
//!
//! | module | holds |
//! |---|---|
//! | `world` | the state at one moment |
//! | `record` | the statements on the record, each of them one atomic step |
//! | `reserved`, `transactional`, `go_interceptor` | the steps of a server in each mode |
//! | `claim`, `request` | a reserved call's claim until it is answered, and the fates of its requests |
//! | `together` | the statements that several calls share, and the look that precedes or follows a claim |
//! | `unprotected` | a reserved call whose claim got no answer |
//! | `pool` | the connections that claims and transactions share |
//! | `environment` | the clock, the database, other users and lost messages |
//! | `properties`, `sights` | conditions that hold in every state, and conditions that must be seen in some |
//! | `guards` | the guards of the protocol; each is left out once, and the checker must notice |
//! | `scenario`, `scenarios`, `explore` | the servers of each exploration, the failures, and the exploration itself |
//!
//! # The properties
//!
//! "One effect" refers to one life of a record: from the first claim of a key to the end of the retention. The policy
//! to proceed allows one more effect for each unprotected run that holds no reservation when it begins, or has taken
//! one over without knowing. (A server that cannot ask the store cannot ask the reconciler first, either.)
//!
//! | where | what holds |
//! |---|---|
//! | everywhere | a completed record does not change while it lives, and a replay repeats it |
//! | | every answer and every record is of something that was done; an answer that nothing was done is true |
//! | | there is one effect, and all answers agree, unless a lease ended without an outcome |
//! | | a worker whose reservation was taken over changes nothing |
//! | | a handler runs unprotected only if the policy says so and the store does not answer a probe |
//! | | a call that has ended holds no reservation, unless a claim of it arrived after its end, or its server crashed |
//! | | no call is refused because of another call in its batch, or told to wait for a lease that has ended |
//! | | a slow status keeps no response from a retry |
//! | | transactions leave a connection to claims, and one user's leave a permit to others |
//! | | an abandoned call is run again only if a reconciler allows it |
//! | | every run comes to rest from every state, and then the next claim is answered |
//! | a server in transactional mode | its effect is there exactly if its record is, whatever the other servers are |
//! | | its answer is always the one in the record |
//! | | a conflict is told as such, whatever the handler answers, and never recorded |
//! | only such servers | one effect, whatever the clock does |
//! | | no handler runs while the key has an outcome |
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
//! | other keys, users, requests | they share nothing with this one, except a lock by chance, and a statement: then they make it fail |
//! | batches of heartbeats | a heartbeat may arrive at any time, late as it is |
//! | batches that outlast a lone attempt | the call has lost the batch; it is carried out at any time |
//! | what a look that decides nothing saw | a look changes nothing |
//! | the length of a lease | a running lease may end next; a heartbeat in time means that it does not |
//! | foreign reservations that are rerun where ended leases are not | each policy is explored, not each pair |
//! | a slow status in transactional mode | a claim in either mode reads it in the same way |
//! | the news that a lease is lost | a handler that gets it stops with an error, as any handler may at any time |
//! | settlements that arrive late | a slow worker that sends them late is the same |
//! | the Go interceptor's unprotected handlers | nothing on the table can prevent them |
//! | how often a claim is asked | each attempt may be the last |
//! | an outage that outlasts a lease | to the holder of the lease it is a pause |
//! | a transaction's connection in an outage | it is lost, or the outage makes no difference to it |
//! | limits that refuse a call before its claim | nothing has happened then |
//! | how a transaction stores a final error | the handler's writes are undone, and the record is committed |
//! | the steps within a statement | the database runs all of them or none |

#![cfg(test)]

mod claim;
mod environment;
mod explore;
mod go_interceptor;
mod guards;
mod pool;
mod properties;
mod record;
mod request;
mod reserved;
mod scenario;
mod scenarios;
mod sights;
mod together;
mod transactional;
mod unprotected;
mod world;

mod tests {
    use std::{fs, path::Path};

    fn texts(folder: &str) -> Vec<String> {
        let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect(folder);
        files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("a text")).collect()
    }

    /// Each transition on the record names what carries it out.
    #[test]
    fn names_functions_that_the_migrations_make() {
        let (model, sql) = (texts("src").concat(), texts("../../migrations/core").concat());
        let names = model.split("`idempotency_").skip(1).filter_map(|rest| rest.split_once('`')).map(|(name, _)| name);
        let names: Vec<_> = names.filter(|name| !name.contains(char::is_whitespace)).collect();
        assert!(names.len() > 12, "{names:?}");
        for name in names {
            assert!(
                sql.contains(&format!("FUNCTION tenant.idempotency_{name}("))
                    || sql.contains(&format!("PROCEDURE tenant.idempotency_{name}(")),
                "{name}"
            );
        }
    }
}
