//! The server that the tests of a process share.

use std::env;

use tokio::sync::OnceCell;

use crate::{Server, Source, binaries, leftovers};

/// The variable with the URL of a running server.
const URL_VARIABLE: &str = "IDEMPOTENCY_TEST_DATABASE_URL";

/// The variable with the only source to try.
const SOURCE_VARIABLE: &str = "IDEMPOTENCY_TEST_POSTGRES";

/// The server that the tests of this process share. The first test that calls this starts it.
///
/// | `IDEMPOTENCY_TEST_DATABASE_URL` | `IDEMPOTENCY_TEST_POSTGRES` | `IDEMPOTENCY_TEST_POSTGRES_BIN` | tried, in this order |
/// |---|---|---|---|
/// | set | any | any | that server |
/// | unset | `container` | any | a container |
/// | unset | `installed` | unset | installed binaries |
/// | unset | unset | unset | a container, installed binaries |
/// | unset | unset or `installed` | set | the binaries in that directory |
///
/// # Panics
///
/// There is no server, which then fails every test alike; or the second variable has another value.
pub async fn test_server() -> &'static Server {
    static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();
    match SERVER.get_or_init(start).await {
        Ok(server) => server,
        Err(why) => panic!("{why}"),
    }
}

async fn start() -> Result<Server, String> {
    let url = env::var(URL_VARIABLE).ok();
    let only = env::var(SOURCE_VARIABLE).ok();
    let sources = sources(url, only.as_deref(), env::var_os(binaries::VARIABLE).is_some())?;
    let server = Server::start(&sources).await.map_err(|error| {
        format!(
            "{error}\nFor the tests, set {URL_VARIABLE} instead of DATABASE_URL; {SOURCE_VARIABLE} selects a source."
        )
    })?;
    if let Source::Url(url) = server.source() {
        leftovers::remove(url).await?;
    }
    Ok(server)
}

fn sources(url: Option<String>, only: Option<&str>, has_binaries: bool) -> Result<Vec<Source>, String> {
    match (url, only) {
        (Some(url), _) => Ok(vec![Source::Url(url)]),
        (None, Some("container")) => Ok(vec![Source::Container]),
        (None, Some("installed")) => Ok(vec![Source::Installed]),
        (None, None) if has_binaries => Ok(vec![Source::Installed]),
        (None, None) => Ok(vec![Source::Container, Source::Installed]),
        (None, Some(other)) => Err(format!("{SOURCE_VARIABLE} is {other:?}; it must be container or installed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_matrix() {
        let url = || Some("postgres://h/d".to_owned());
        for (url, only, has_binaries, expected) in [
            (url(), None, false, r#"Ok([Url("h:5432/d")])"#),
            (url(), Some("container"), true, r#"Ok([Url("h:5432/d")])"#),
            (None, Some("container"), false, "Ok([Container])"),
            (None, Some("container"), true, "Ok([Container])"),
            (None, Some("installed"), false, "Ok([Installed])"),
            (None, Some("installed"), true, "Ok([Installed])"),
            (None, None, false, "Ok([Container, Installed])"),
            (None, None, true, "Ok([Installed])"),
        ] {
            assert_eq!(format!("{:?}", sources(url, only, has_binaries)), expected);
        }
        assert!(sources(None, Some("docker"), false).is_err());
    }
}
