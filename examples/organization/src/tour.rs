//! The text printed at the start: the service's address, and commands that demonstrate idempotency keys.

use std::{
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use scratch_postgres::{Server, Source};
use uuid::Uuid;

use crate::{CLUSTER, bootstrap::operator_url, ready::Ready};

/// Prints the tour.
pub(crate) fn print(ready: &Ready<'_>, server: &Server, outbox_delay: Duration) {
    let tour = Tour {
        address: reachable(ready.address),
        alice: &ready.tokens.alice,
        bob: &ready.tokens.bob,
        x: [&ready.tokens.x_here, &ready.tokens.x_there],
        key: Uuid::new_v4(),
        failing_key: Uuid::new_v4(),
        slow_key: Uuid::new_v4(),
        request_id: Uuid::new_v4(),
        delay: humantime::format_duration(outbox_delay).to_string(),
    };
    let text = format!(
        "\nServing organization.v1 on {}. Press Ctrl-C to stop.\nDatabase: {}\n{}\nTry it in a browser: http://{}/\n{}\n",
        ready.address,
        server.describe(),
        operator(server),
        tour.address,
        tour.text()
    );
    // An error means that stdout is closed: there is no reader.
    let _ = io::stdout().write_all(text.as_bytes());
}

/// The line for an operator. It has the password of a private server only: another's is known, and terminals are recorded.
fn operator(server: &Server) -> String {
    let is_private = !matches!(server.source(), Source::Url(_));
    let Some(url) = operator_url(server.url(), is_private) else { return String::new() };
    let is_asked = !is_private && operator_url(server.url(), true).as_ref() != Some(&url);
    let password = if is_asked { ", with your password in PGPASSWORD" } else { "" };
    format!("An operator{password}: DATABASE_URL={url} tonic-idempotency list\n")
}

struct Tour<'a> {
    address: SocketAddr,
    alice: &'a str,
    bob: &'a str,
    x: [&'a str; 2],
    key: Uuid,
    failing_key: Uuid,
    slow_key: Uuid,
    request_id: Uuid,
    delay: String,
}

impl Tour<'_> {
    fn text(&self) -> String {
        let (project, invitation, key) = (Call::project("shop"), Call::invitation(), self.key.to_string());
        let steps = [
            (
                "A first call. Expect a projectId, and `idempotency-status: processing` among the response headers."
                    .to_owned(),
                self.command(self.alice, Some(&key), &project),
            ),
            (
                format!(
                    "The same call again. Expect the same projectId, `idempotent-replayed: true`, and, {} after the first \
                     call, `idempotency-status: completed`.",
                    self.delay
                ),
                self.command(self.alice, Some(&key), &project),
            ),
            (
                "The same call over Connect, in JSON with curl. Expect the same projectId and `idempotent-replayed: true`."
                    .to_owned(),
                self.curl(self.alice, self.key, &project),
            ),
            (
                "The same key with another request. Expect InvalidArgument and IDEMPOTENCY_KEY_REUSED with `mismatch`: \
                 `request`."
                    .to_owned(),
                self.command(self.alice, Some(&key), &Call::project("another shop")),
            ),
            (
                "The same key with another procedure. Expect the same error with `mismatch`: `procedure`.".to_owned(),
                self.command(self.alice, Some(&key), &Call::cluster("second", None)),
            ),
            (
                "A call that takes five seconds, and the same call meanwhile. Expect Aborted and IDEMPOTENCY_IN_PROGRESS, and then \
                 the projectId of the first."
                    .to_owned(),
                self.twice(self.alice, self.slow_key, &Call::project("slow shop")),
            ),
            (
                "Another user, bob, with alice's key. Expect another projectId and no `idempotent-replayed`."
                    .to_owned(),
                self.command(self.bob, Some(&key), &project),
            ),
            (
                "A key that is not a UUID. Expect an installId. Run the command again, and expect `idempotent-replayed: true`."
                    .to_owned(),
                self.command(self.alice, Some("order-17"), &Call::install("ingress")),
            ),
            (
                "A key in the message, in the field requestId. Expect a clusterId. Run the command again, and expect the same."
                    .to_owned(),
                self.command(self.alice, None, &Call::cluster("third", Some(self.request_id))),
            ),
            (
                "A node that registers itself: its own id is the key. Run the command again, now or when the record has \
                 expired, and expect `idempotent-replayed: true`."
                    .to_owned(),
                self.command(self.alice, None, &Call::node("rack4-17")),
            ),
            (
                "A user of an identity provider, auth0|x, in the organization of alice. Expect an invitationId.".to_owned(),
                self.command(self.x[0], Some(&key), &invitation),
            ),
            (
                "The same user with the same key in another organization. Expect another invitationId and no \
                 `idempotent-replayed`."
                    .to_owned(),
                self.command(self.x[1], Some(&key), &invitation),
            ),
            (
                format!(
                    "A project whose asynchronous work fails. Expect `processing`. Run the command again, more than {} and \
                     a second later, and expect `failed`.",
                    self.delay
                ),
                self.command(self.alice, Some(&self.failing_key.to_string()), &Call::project("fail-shop")),
            ),
            (
                "The metrics of these calls, for Prometheus. Expect `idempotency_calls_total` with the outcomes `first`, \
                 `replayed` and `rejected`."
                    .to_owned(),
                format!("curl http://{}/metrics", self.address),
            ),
        ];
        let steps: String = steps
            .iter()
            .enumerate()
            .map(|(number, (expect, command))| format!("\n{}. {expect}\n\n{command}\n", number + 1))
            .collect();
        format!(
            "\nA tour: paste these commands into another terminal. They need curl and grpcurl:\n  \
             go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest\n{steps}"
        )
    }

    fn curl(&self, token: &str, key: Uuid, call: &Call) -> String {
        format!(
            "curl -i \\\n  -H 'authorization: Bearer {token}' \\\n  -H 'idempotency-key: {key}' \\\n  \
             -H 'content-type: application/json' \\\n  -d '{}' \\\n  http://{}/{}",
            call.request, self.address, call.procedure
        )
    }

    /// A slow call, and the same call while it runs.
    fn twice(&self, token: &str, key: Uuid, call: &Call) -> String {
        let slow = format!("{key}' \\\n  -H 'sample-handler-delay-ms: 5000");
        let [first, meanwhile] = [&slow, &key.to_string()].map(|key| self.command(token, Some(key), call));
        format!("{first} &\nsleep 1\n{meanwhile}\nwait")
    }

    fn command(&self, token: &str, key: Option<&str>, call: &Call) -> String {
        let key = key.map(|key| format!("-H 'idempotency-key: {key}' \\\n  ")).unwrap_or_default();
        format!(
            "grpcurl -v -plaintext \\\n  -H 'authorization: Bearer {token}' \\\n  {key}-d '{}' \\\n  {} {}",
            call.request, self.address, call.procedure
        )
    }
}

struct Call {
    procedure: &'static str,
    request: String,
}

impl Call {
    fn project(name: &str) -> Self {
        Self {
            procedure: "organization.v1.ProjectService/CreateProject",
            request: format!(r#"{{"clusterId": "{CLUSTER}", "name": "{name}", "labels": {{"tier": "gold"}}}}"#),
        }
    }

    fn invitation() -> Self {
        Self {
            procedure: "organization.v1.InviteService/InviteMember",
            request: r#"{"email": "carol@example.com", "role": "viewer"}"#.to_owned(),
        }
    }

    fn cluster(name: &str, request_id: Option<Uuid>) -> Self {
        let request_id = request_id.map(|id| format!(r#", "requestId": "{id}""#)).unwrap_or_default();
        Self {
            procedure: "organization.v1.ClusterService/CreateCluster",
            request: format!(r#"{{"name": "{name}", "region": "nl-1"{request_id}}}"#),
        }
    }

    fn install(name: &str) -> Self {
        Self {
            procedure: "organization.v1.ClusterService/AddInstall",
            request: format!(r#"{{"clusterId": "{CLUSTER}", "name": "{name}", "version": "1.2.3"}}"#),
        }
    }

    fn node(id: &str) -> Self {
        Self {
            procedure: "organization.v1.ClusterService/RegisterNode",
            request: format!(r#"{{"clusterId": "{CLUSTER}", "node": {{"id": "{id}", "machineType": "m1"}}}}"#),
        }
    }
}

/// Returns an address that clients can call: the loopback address if the service listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_the_loopback_address_if_it_listens_on_all_addresses() {
        let called = |address: &str| reachable(address.parse().expect("an address")).to_string();
        assert_eq!(called("0.0.0.0:1"), "127.0.0.1:1");
        assert_eq!(called("[::]:1"), "[::1]:1");
        assert_eq!(called("192.0.2.1:1"), "192.0.2.1:1");
    }
}
