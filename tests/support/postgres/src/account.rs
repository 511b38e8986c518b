//! The user that a server runs as.

use std::process::{Command, Stdio};

use crate::error::Cause;

/// A user other than the one of this process.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) gid: u32,
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
}

impl Account {
    /// The user to run PostgreSQL and PgBouncer as: another user if this process runs as root, else `None`, for this
    /// process's user.
    ///
    /// # Errors
    ///
    /// This process runs as root and there is neither a user `postgres` nor a user `nobody`; or there is no program
    /// `id`.
    pub(crate) fn for_servers() -> Result<Option<Self>, Cause> {
        if id(&["-u"]).ok_or("the program id does not report the user of this process")? != 0 {
            return Ok(None);
        }
        ["postgres", "nobody"].into_iter().find_map(Self::named).map(Some).ok_or_else(|| {
            "PostgreSQL and PgBouncer refuse to run as root, and there is no user postgres or nobody".into()
        })
    }

    fn named(name: &'static str) -> Option<Self> {
        let uid = id(&["-u", name])?;
        let gid = id(&["-g", name])?;
        (uid != 0).then_some(Self { gid, name, uid })
    }
}

/// The answer of `id`, which finds users in every user database of the machine.
fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
