//! A private Redis server.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr},
    sync::{Mutex, PoisonError},
};

use scratch_postgres::Supervisor;

use crate::{
    error::StartError,
    programs::{SERVER, ask, until},
};

/// Runs and removes the server; described in the file.
const SCRIPT: &str = include_str!("supervisor.sh");

/// How often a server is started, in case another process takes the port that was just free.
const ATTEMPTS: usize = 5;

/// A server of its own. Dropping it kills it and removes its files.
#[derive(Debug)]
pub struct Server {
    supervisor: Mutex<Supervisor>,
    port: u16,
}

impl Server {
    /// Starts a server with these lines of configuration, and waits until it answers. Without any, it writes nothing to the disk.
    ///
    /// # Errors
    ///
    /// There is no `redis-server`, or it does not answer within a minute.
    pub fn start(configuration: &[&str]) -> Result<Self, StartError> {
        Self::launch(&[&["save \"\""], configuration].concat(), &[])
    }

    /// The same, with arguments after the configuration file.
    pub(crate) fn launch(configuration: &[&str], arguments: &[&str]) -> Result<Self, StartError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let ports = scratch_postgres::free_ports(2)?;
            match Self::launch_at([ports[0], ports[1]], configuration, arguments) {
                Err(_) if attempts < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }

    fn launch_at([port, bus]: [u16; 2], configuration: &[&str], arguments: &[&str]) -> Result<Self, StartError> {
        let mut text = format!("bind 127.0.0.1\nport {port}\nprotected-mode no\n");
        // The default is the port and 10000, which may be no port.
        if configuration.iter().any(|line| line.starts_with("cluster-enabled")) {
            text.push_str(&format!("cluster-port {bus}\n"));
        }
        text.push_str(&configuration.join("\n"));
        let directory = env::temp_dir();
        let words = [&*directory.to_string_lossy(), &text, SERVER];
        let supervisor = Supervisor::start(SCRIPT, words.iter().chain(arguments))?;
        let server = Self { supervisor: Mutex::new(supervisor), port };
        server.answers()?;
        Ok(server)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its address, as clients write it.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address())
    }

    /// Sends it one command, and returns the answer as `redis-cli` prints it; nothing if it does not answer.
    pub fn ask(&self, command: &[&str]) -> String {
        ask(self.port, command)
    }

    /// Kills it, as `kill -9` does: nothing that is in its own memory is written.
    pub fn kill(&self) {
        self.order("kill");
    }

    /// Starts it again after [`kill`](Self::kill), on its port and with its files, and waits until it answers.
    ///
    /// # Errors
    ///
    /// It does not answer within a minute.
    pub fn restart(&self) -> Result<(), StartError> {
        self.order("start");
        self.answers()
    }

    /// Stops its process, as a long pause of its machine does.
    pub fn pause(&self) {
        self.order("pause");
    }

    /// Lets its process go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.order("resume");
    }

    fn answers(&self) -> Result<(), StartError> {
        // One that wants a password answers, too.
        let is_up = |answer: &str| answer.contains("PONG") || answer.contains("NOAUTH");
        let up = until("the server answers", || is_up(&self.ask(&["PING"])));
        up.map_err(|error| StartError::new(format_args!("{error}; the last of its log: {}", self.order("log"))))
    }

    fn order(&self, order: &str) -> String {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).ask(order).unwrap_or_default()
    }
}
