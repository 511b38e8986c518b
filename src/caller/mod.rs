//! The caller of a call: its user, its scope, and the owner of its records.
//!
//! | module | contents |
//! |---|---|
//! | `caller` | [`Caller`]: a user in a scope, or in none |
//! | `id` | the ids of users and scopes: a UUID or a text |
//! | `owner` | [`OwnerId`]: the owner of a record, as it is stored |
//! | `resolver` | [`CallerResolver`]: finds the caller of a request |
//! | `scope`, `user_id` | [`Scope`] and [`UserId`] |

#[expect(clippy::module_inception, reason = "the caller itself")]
mod caller;
mod id;
mod owner;
mod resolver;
mod scope;
mod user_id;

pub use self::{
    caller::Caller,
    id::InvalidCallerId,
    owner::OwnerId,
    resolver::{CallerFromExtensions, CallerResolver},
    scope::Scope,
    user_id::UserId,
};
