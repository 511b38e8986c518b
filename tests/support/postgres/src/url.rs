//! Connection strings, as URLs (`postgres://…`) or as `key=value` pairs.

use tokio_postgres::{Config, config::Host};

/// The destination of `url`, `host:port/database`, without its password.
pub(crate) fn place(url: &str) -> String {
    let Ok(config) = url.parse::<Config>() else {
        return "(not a PostgreSQL connection string)".to_owned();
    };
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(directory)) => directory.display().to_string(),
        None => "(no host)".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{host}:{port}/{database}")
}

/// Replaces the database in `url`; everything else stays.
pub(crate) fn with_database(url: &str, database: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // PostgreSQL uses the last value of a repeated key.
        return format!("{url} dbname={database}");
    };
    let (before, parameters) = match rest.split_once('?') {
        Some((before, parameters)) => (before, format!("?{parameters}")),
        None => (rest, String::new()),
    };
    let authority = before.split('/').next().unwrap_or_default();
    format!("{scheme}://{authority}/{database}{parameters}")
}

/// A URL with the user, the password and the database of `config`, but with another host and port.
pub(crate) fn through(config: &Config, host: &str, port: u16) -> String {
    to_primary(config, &[format!("{host}:{port}")])
}

/// A URL with the user, the password and the database of `config`, that leads to whichever of these hosts, with their ports, takes
/// writes. They are tried in any order: one that is silent must not always be the first.
pub(crate) fn to_primary(config: &Config, hosts: &[String]) -> String {
    let encoded = |text: &[u8]| -> String {
        let encode = |byte: &u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        text.iter().map(encode).collect()
    };
    let user = config.get_user().unwrap_or_default();
    let password = config.get_password().map(|password| format!(":{}", encoded(password))).unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let choice = if hosts.len() > 1 { "?target_session_attrs=read-write&load_balance_hosts=random" } else { "" };
    let (user, hosts, database) = (encoded(user.as_bytes()), hosts.join(","), encoded(database.as_bytes()));
    format!("postgres://{user}{password}@{hosts}/{database}{choice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_leaves_the_password_out() {
        for (url, place) in [
            ("postgres://u:secret@db:5433/app?connect_timeout=3", "db:5433/app"),
            ("postgresql://u:secret@db", "db:5432/u"),
            ("host=db user=u password=secret dbname=app", "db:5432/app"),
            ("postgres://u:secret@db:port/app", "(not a PostgreSQL connection string)"),
        ] {
            assert_eq!(super::place(url), place, "{url}");
        }
    }

    #[test]
    fn with_database_replaces_only_the_database() {
        for (url, expected) in [
            ("postgres://u:p@h:1/old", "postgres://u:p@h:1/new"),
            ("postgres://u:p@h:1", "postgres://u:p@h:1/new"),
            ("postgres://u:p@h:1/old?connect_timeout=3", "postgres://u:p@h:1/new?connect_timeout=3"),
            ("postgres://h?user=u", "postgres://h/new?user=u"),
            ("host=h dbname=old", "host=h dbname=old dbname=new"),
        ] {
            let url = with_database(url, "new");
            assert_eq!(url, expected);
            let config: Config = url.parse().expect("stays a connection string");
            assert_eq!(config.get_dbname(), Some("new"), "{url}");
        }
    }
}
