//! Decides whether the promises were kept. The only evidence is the rows in the database at the end, the answers that clients got, and when
//! handlers ran, as servers report it: the auditor knows nothing of leases or tokens.
//!
//! | promise | broken if |
//! |---|---|
//! | nothing happens twice | an operation has more than one row, not counting one for each of its unprotected runs |
//! | a refused request is not executed | a request that used the key of another operation has a row |
//! | one handler runs, and once | the handler of a key begins while another runs whose server nothing has happened to, or after a response |
//! | an acknowledged effect stays | an acknowledged id has no row, or a later retry does not get it as a replay |
//! | a replay repeats the call's own response | a response has another operation's id, or not the first response's id |
//! | nothing runs unprotected without need | a call with a key ran unprotected, and its policy is not `proceed`, or the database could be asked |
//! | no key is stuck | the last retry of an operation, after all faults, gets no final answer |
//! | nothing unexpected | an answer is one that no client of this service can expect; a server ends by itself |
//!
//! With asynchronous replication, a failover may lose acknowledged records and effects; with records on Redis, only records. Violations of
//! all promises but the last three are then counted apart. A lost effect still breaks a promise if the records are on Redis.

mod evidence;
mod judge;
mod promise;
mod rows;
mod rules;
mod runs;
mod tally;
mod verdict;

pub(crate) use self::{
    evidence::Evidence,
    judge::judge,
    promise::Promise,
    rows::Rows,
    rules::{Losses, Rules},
    tally::Tally,
    verdict::{Verdict, Violation},
};

#[cfg(test)]
mod tests;
