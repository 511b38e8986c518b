//! The process that outlives this one to remove a server.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const SCRIPT: &str = include_str!("supervisor.sh");

/// A shell script that runs a server until its standard input ends, which happens when this process ends in any way, and then removes the
/// server. It has its own process group, so that a terminal's Ctrl-C does not reach it.
///
/// Dropping this ends the script and waits for it.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Child,
    /// Closed on exec, so that no other child of this process keeps it open.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Supervisor {
    /// Starts a server with this configuration file, and these arguments after it.
    pub(crate) fn spawn(program: &str, configuration: &str, arguments: &[&str]) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "scratch-redis"])
            .arg(env::temp_dir())
            .args([configuration, program])
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Sends the script an order, and returns its answer: empty if it has ended.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        let mut answer = String::new();
        if let Some(input) = &mut self.input
            && writeln!(input, "{order}").is_ok()
        {
            let _ = self.output.read_line(&mut answer);
        }
        answer.trim_end().to_owned()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
