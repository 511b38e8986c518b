//! The configuration of Patroni, and of HAProxy in front of it.

use std::path::Path;

use super::Replication;

/// The settings of Patroni itself, in seconds: a primary that was killed is replaced soon after `ttl`. `loop_wait` and twice
/// `retry_timeout` may not be longer. (Since version 3.1, Patroni makes `ttl` at least 20.)
const TIMES: [&str; 4] = ["ttl: 5", "loop_wait: 1", "retry_timeout: 2", "primary_start_timeout: 0"];

/// Otherwise a former primary, which asynchronous standbys have not caught up with, may become the primary again before it is rewound: then
/// two timelines have one number, and Patroni cannot tell that they differ.
const CANDIDATES: &str = "check_timeline: true";

/// The settings of each server. Commits are in the kernel when they are answered, so that they outlive the processes.
const PARAMETERS: [(&str, &str); 14] = [
    ("dynamic_shared_memory_type", "mmap"),
    ("fsync", "off"),
    ("max_connections", "300"),
    ("max_replication_slots", "10"),
    ("max_wal_senders", "10"),
    ("max_wal_size", "128MB"),
    ("shared_buffers", "32MB"),
    ("tcp_user_timeout", "5s"),
    ("unix_socket_directories", "''"),
    ("wal_keep_size", "64MB"),
    ("wal_log_hints", "on"),
    ("wal_receiver_timeout", "5s"),
    ("wal_retrieve_retry_interval", "200ms"),
    ("wal_sender_timeout", "5s"),
];

/// The settings of Patroni and HAProxy.
#[derive(Clone, Debug)]
pub(super) struct Configuration {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) front: u16,
    /// For each node, the port of its server, and that of its Patroni.
    pub(super) nodes: Vec<(u16, u16)>,
    pub(super) password: String,
    pub(super) replication: Replication,
}

impl Configuration {
    /// The file of a node, for servers with these binaries. `@DIRECTORY@` is the directory of all.
    pub(super) fn of_node(&self, node: usize, binaries: &Path) -> String {
        let (server, patroni) = self.nodes[node];
        let Self { etcd, password, .. } = self;
        let binaries = binaries.display();
        let replicator: String = password.chars().rev().collect();
        let general = lines("    ", TIMES.into_iter().chain([CANDIDATES]).map(str::to_owned));
        let parameters = lines("        ", PARAMETERS.map(|(name, value)| format!("{name}: {value}")));
        let synchronous = self.replication == Replication::Synchronous;
        format!(
            "scope: scratch
name: node{node}
restapi:
  listen: 127.0.0.1:{patroni}
  connect_address: 127.0.0.1:{patroni}
etcd:
  host: 127.0.0.1:{etcd}
bootstrap:
  dcs:
{general}    maximum_lag_on_failover: 1073741824
    synchronous_mode: {synchronous}
    synchronous_mode_strict: {synchronous}
    postgresql:
      use_pg_rewind: true
      use_slots: true
      parameters:
{parameters}  initdb:
    - encoding: UTF8
    - locale: C
    - no-sync
postgresql:
  listen: 127.0.0.1:{server}
  connect_address: 127.0.0.1:{server}
  data_dir: '@DIRECTORY@/node{node}'
  bin_dir: '{binaries}'
  pgpass: '@DIRECTORY@/node{node}.pgpass'
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  basebackup:
    - checkpoint: fast
  authentication:
    superuser:
      username: postgres
      password: {password}
    replication:
      username: replicator
      password: {replicator}
  pg_hba:
    - host all all 127.0.0.1/32 scram-sha-256
    - host replication replicator 127.0.0.1/32 scram-sha-256
"
        )
    }

    /// The file of HAProxy, which asks each Patroni whether its server is the primary, and ends the connections to one that is not
    /// any more.
    pub(super) fn of_front(&self) -> String {
        let node = |(node, (server, patroni)): (usize, &(u16, u16))| {
            format!("server node{node} 127.0.0.1:{server} maxconn 300 check port {patroni}")
        };
        let nodes = lines("  ", self.nodes.iter().enumerate().map(node));
        let front = self.front;
        format!(
            "global
  maxconn 1000
defaults
  mode tcp
  retries 0
  timeout connect 2s
  timeout client 30m
  timeout server 30m
  timeout check 1s
listen primary
  bind 127.0.0.1:{front}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 300ms fall 2 rise 1 on-marked-down shutdown-sessions
{nodes}"
        )
    }

    /// The options of etcd. Patroni uses its API of version 2: by version 3, a Patroni before 3.0.3 that has hung for longer than `ttl` takes
    /// the leader's key back from its successor, whatever that has done meanwhile.
    pub(super) fn of_etcd(&self) -> Vec<String> {
        let (client, peer) =
            (format!("http://127.0.0.1:{}", self.etcd), format!("http://127.0.0.1:{}", self.etcd_peer));
        let options = [
            ("--name", "scratch".to_owned()),
            ("--log-level", "warn".to_owned()),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--listen-peer-urls", peer.clone()),
            ("--initial-advertise-peer-urls", peer.clone()),
            ("--initial-cluster", format!("scratch={peer}")),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        options.chain(["--enable-v2=true".to_owned()]).collect()
    }
}

/// These lines, indented.
fn lines(indentation: &str, lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|line| format!("{indentation}{line}\n")).collect()
}
