//! The user that a server runs as.

use std::process::{Command, Stdio};

use crate::error::Cause;

/// A user other than the one who runs this process.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) gid: u32,
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
}

impl Account {
    /// Whom to run PostgreSQL and PgBouncer as: another user when this process is root's, else `None`, the user of this
    /// process.
    ///
    /// # Errors
    ///
    /// This process is root's and there is neither a user `postgres` nor `nobody`; or there is no program `id` to ask.
    pub(crate) fn for_servers() -> Result<Option<Self>, Cause> {
        if id(&["-u"]).ok_or("the program id does not say who runs this process")? != 0 {
            return Ok(None);
        }
        ["postgres", "nobody"].into_iter().find_map(Self::named).map(Some).ok_or_else(|| {
            "PostgreSQL and PgBouncer refuse to run as root, and there is no user postgres or nobody to run as".into()
        })
    }

    fn named(name: &'static str) -> Option<Self> {
        let uid = id(&["-u", name])?;
        let gid = id(&["-g", name])?;
        (uid != 0).then_some(Self { gid, name, uid })
    }
}

/// What `id` says, which knows users from wherever this machine keeps them.
fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
