//! `DATABASE_URL` and `PGPASSWORD`.

use std::{env, path::PathBuf};

use tokio_postgres::{Config, config};

use super::{
    answers::chain,
    tls::{Tls, Verified},
};
use crate::failure::Failure;

const URL: &str = "DATABASE_URL";
const PASSWORD: &str = "PGPASSWORD";

/// How to connect.
pub(super) struct Settings {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

impl Settings {
    pub(super) fn from_environment() -> Result<Self, Failure> {
        let url = env::var(URL).map_err(|_| {
            Failure::Input(format!("set {URL}, such as postgres://my_operator@db/my_app?sslmode=verify-full"))
        })?;
        let mut settings = Self::parse(&url)?;
        if let Some(password) = env::var_os(PASSWORD).filter(|_| settings.config.get_password().is_none()) {
            settings.config.password(password.into_encoded_bytes());
        }
        Ok(settings)
    }

    /// Parses a URL, or names and values as libpq reads them. `sslmode` and `sslrootcert` mean what they do there.
    fn parse(url: &str) -> Result<Self, Failure> {
        let (rest, parameters) = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            without_parameters_of_tls(url)?
        } else {
            without_words_of_tls(url)?
        };
        let parameter = |name: &str| parameters.iter().find(|(found, _)| found == name).map(|(_, value)| &**value);
        let roots = parameter("sslrootcert").filter(|roots| *roots != "system").map(PathBuf::from);
        let (mode, verified) = match (parameter("sslmode").unwrap_or("prefer"), parameter("sslrootcert")) {
            ("disable", _) => (config::SslMode::Disable, Verified::Nothing),
            // As libpq does.
            ("require", Some(_)) => (config::SslMode::Require, Verified::Authority),
            ("require", None) => (config::SslMode::Require, Verified::Nothing),
            ("allow" | "prefer", _) => (config::SslMode::Prefer, Verified::Nothing),
            ("verify-ca", _) => (config::SslMode::Require, Verified::Authority),
            ("verify-full", _) => (config::SslMode::Require, Verified::Host),
            (other, _) => {
                let modes = "disable, prefer, require, verify-ca or verify-full";
                return Err(Failure::Input(format!("{URL}: sslmode is {modes}, not {other}")));
            }
        };
        let mut config: Config = rest.parse().map_err(|error| Failure::Input(format!("{URL}: {}", chain(&error))))?;
        config.ssl_mode(mode);
        Ok(Self { config, tls: Tls { verified, roots } })
    }
}

/// The parameters that this program reads itself, and the rest.
type Split = (String, Vec<(String, String)>);

fn is_of_tls(name: &str) -> bool {
    matches!(name, "sslmode" | "sslrootcert")
}

fn without_parameters_of_tls(url: &str) -> Result<Split, Failure> {
    let Some((address, query)) = url.split_once('?') else { return Ok((url.to_owned(), Vec::new())) };
    let mut own = Vec::new();
    let mut rest = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some((name, value)) if is_of_tls(name) => {
                let value = percent_encoding::percent_decode_str(value).decode_utf8();
                let value = value.map_err(|error| Failure::Input(format!("{URL}: {name}: {error}")))?;
                own.push((name.to_owned(), value.into_owned()));
            }
            _ => rest.push(parameter),
        }
    }
    let rest = rest.join("&");
    Ok((if rest.is_empty() { address.to_owned() } else { format!("{address}?{rest}") }, own))
}

fn without_words_of_tls(text: &str) -> Result<Split, Failure> {
    let mut own = Vec::new();
    let mut rest = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some((name, value)) if is_of_tls(name) => {
                if value.contains(['\'', '\\']) {
                    return Err(Failure::Input(format!(
                        "{URL}: write {name} in a URL, where % escapes what is special"
                    )));
                }
                own.push((name.to_owned(), value.to_owned()));
            }
            _ => rest.push(word),
        }
    }
    Ok((if own.is_empty() { text.to_owned() } else { rest.join(" ") }, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(url: &str) -> (config::SslMode, Verified, Option<String>) {
        let Settings { config, tls } = Settings::parse(url).unwrap_or_else(|failure| panic!("{url}: {failure}"));
        (config.get_ssl_mode(), tls.verified, tls.roots.map(|roots| roots.display().to_string()))
    }

    #[test]
    fn tls_is_as_libpq_reads_it() {
        use config::SslMode::{Disable, Prefer, Require};
        for (parameters, mode, verified, roots) in [
            ("", Prefer, Verified::Nothing, None),
            ("?sslmode=disable", Disable, Verified::Nothing, None),
            ("?sslmode=require", Require, Verified::Nothing, None),
            ("?sslmode=require&sslrootcert=%2Fa%20b.pem", Require, Verified::Authority, Some("/a b.pem")),
            ("?connect_timeout=3&sslmode=verify-ca", Require, Verified::Authority, None),
            ("?sslmode=verify-full&connect_timeout=3&sslrootcert=system", Require, Verified::Host, None),
            ("?sslrootcert=a.pem&sslmode=verify-full", Require, Verified::Host, Some("a.pem")),
        ] {
            let expected = (mode, verified, roots.map(str::to_owned));
            assert_eq!(tls(&format!("postgres://a:b@h1,h2:5433/c{parameters}")), expected, "{parameters}");
            if !parameters.contains('%') {
                let words = format!("host=h user=a {}", parameters.trim_start_matches('?').replace('&', " "));
                assert_eq!(tls(&words), expected, "{words}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_no_password_is_printed() {
        for (url, named) in [
            ("postgres://a:hidden@h/c?sslmode=on", "verify-full, not on"),
            ("postgres://a:hidden@h/c?sslmode=require&sslcert=x", "sslcert"),
            ("host=h password=hidden sslrootcert='a b'", "in a URL"),
            ("host=h password=hidden port=x", "port"),
        ] {
            let failure = Settings::parse(url).err().expect(url).to_string();
            assert!(failure.starts_with("DATABASE_URL: ") && failure.contains(named), "{failure}");
            assert!(!failure.contains("hidden"), "{failure}");
        }
    }
}
