//! Measures tables of up to a hundred million records, and writes results/large-tables.md.
//!
//! | module | measures |
//! |---|---|
//! | `way` | the way of a table in use to partitions: the longest wait for a lock, and the calls meanwhile |
//! | `claims` | claims in a large table, compared with a small one |
//! | `sweep` | a sweep of many expired records, and the calls meanwhile |

mod args;
mod claims;
mod disk;
mod load;
mod logged;
mod progress;
mod report;
mod sweep;
mod table;
mod way;

use std::path::Path;

use clap::Parser as _;

use crate::{
    args::{Args, Measurement},
    progress::Progress,
};

/// Why a measurement could not run, as a sentence for its user.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the report")]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let progress = Progress::new();
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/large-tables.md"));
    for measurement in args.measurements() {
        let section = match measurement {
            Measurement::Way => way::measure(&args, &progress).await?,
            Measurement::Claims => claims::measure(&args, &progress).await?,
            Measurement::Sweep => sweep::measure(&args, &progress).await?,
        };
        println!("{section}");
        if args.write {
            section.write(page)?;
            progress.say("results/large-tables.md has been written");
        }
    }
    Ok(())
}
