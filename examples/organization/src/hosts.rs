//! The hosts that the page answers for.
//!
//! A page of another site can point its own name at this machine's address (DNS rebinding). The browser then takes this
//! server for that site, lets the page read every answer, and sends the site's name as `Host`.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{Response, StatusCode, header, uri::Authority},
    middleware::Next,
    response::IntoResponse as _,
};

/// The hosts that the page answers for: this machine's own, and those that the command line names.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    named: Arc<[String]>,
}

impl Hosts {
    /// The hosts of an address to listen on, and others.
    pub(crate) fn new(listen: &str, others: &[String]) -> Self {
        let listen: Option<Authority> = listen.parse().ok();
        let listen = listen.map(|listen| listen.host().to_owned());
        Self { named: listen.into_iter().chain(others.iter().cloned()).collect() }
    }

    fn contains(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback())
            || self.named.iter().any(|named| named.eq_ignore_ascii_case(host))
    }

    /// Whether a request names a host, and only hosts of these. HTTP/1 has the host in a header, HTTP/2 in the URI.
    fn are_asked(&self, request: &Request) -> bool {
        let mut headers = request.headers().get_all(header::HOST).iter().peekable();
        let in_uri = request.uri().authority();
        let named = in_uri.is_some() || headers.peek().is_some();
        named
            && in_uri.is_none_or(|authority| self.contains(authority.host()))
            && headers.all(|host| {
                let authority = Authority::try_from(host.as_bytes());
                authority.is_ok_and(|authority| self.contains(authority.host()))
            })
    }
}

/// Passes on requests for these hosts, and refuses all others.
pub(crate) async fn only(State(hosts): State<Hosts>, request: Request, next: Next) -> Response<axum::body::Body> {
    if hosts.are_asked(&request) {
        return next.run(request).await;
    }
    let why = "this page answers only for localhost; name another host with --host\n";
    (StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(listen: &str, uri: &str, headers: &[&str]) -> bool {
        let mut request = Request::builder().uri(uri);
        for host in headers {
            request = request.header(header::HOST, *host);
        }
        let request = request.body(axum::body::Body::empty()).expect("a request");
        Hosts::new(listen, &["shop.test".to_owned()]).are_asked(&request)
    }

    #[test]
    fn are_this_machine_the_address_to_listen_on_and_those_named() {
        for host in ["localhost", "LOCALHOST:50051", "127.0.0.1:50051", "127.1.2.3", "[::1]:50051", "shop.test:1"] {
            assert!(asked("192.0.2.7:50051", "/", &[host]), "{host}");
            assert!(asked("192.0.2.7:50051", &format!("http://{host}/"), &[]), "{host}");
        }
        assert!(asked("192.0.2.7:50051", "/", &["192.0.2.7:50051"]));
        assert!(asked("dev.test:50051", "/", &["Dev.Test:50051"]));
    }

    #[test]
    fn are_not_others_or_none() {
        for host in ["evil.test:50051", "localhost.evil.test", "127.0.0.1.evil.test", "192.0.2.8", "", "a b", "[::2]"] {
            assert!(!asked("192.0.2.7:50051", "/", &[host]), "{host}");
        }
        assert!(!asked("127.0.0.1:0", "/", &[]));
        assert!(!asked("127.0.0.1:0", "/", &["localhost", "evil.test"]));
        assert!(!asked("127.0.0.1:0", "http://localhost/", &["evil.test"]));
        assert!(!asked("127.0.0.1:0", "http://evil.test/", &["localhost"]));
    }
}
