//! Measures what Redis loses when servers are killed: callers create orders through the layer, primaries are killed with `kill -9`, and in
//! the end every call that was answered is retried. A record that is gone shows as a second order.
//!
//! ```sh
//! cargo run --release -p redis-store-tests --bin redis-losses
//! ```
//!
//! Prints the table of `docs/redis.md`. It needs `redis-server` and `redis-cli` on `PATH`.

mod callers;
mod faults;
mod orders;
mod settings;

use clap::Parser;

use crate::{callers::Tally, settings::Setting};

/// Measures what Redis loses when servers are killed.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// How many callers create orders at once.
    #[arg(long, default_value_t = 16)]
    pub(crate) callers: usize,
    /// How often a primary is killed, at each setting.
    #[arg(long, default_value_t = 6)]
    pub(crate) faults: usize,
    /// Measures only the settings whose row begins with something that has this part.
    #[arg(long, default_value = "")]
    pub(crate) only: String,
}

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the table, and the progress")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    if let Some(why) = scratch_redis::missing() {
        return Err(why.into());
    }
    println!("| servers | fault | settings | faults | calls answered | answered, and lost | orders created twice |");
    println!("|---|---|---|---|---|---|---|");
    for setting in Setting::all().into_iter().filter(|setting| format!("{setting} |").contains(&options.only)) {
        eprintln!("{setting}");
        let Tally { answered, lost, duplicates } = faults::measure(&setting, &options).await?;
        println!("| {setting} | {} | {answered} | {lost} | {duplicates} |", options.faults);
    }
    Ok(())
}
