//! What the layer costs, against what a user would use instead: measured in one run, and written down.
//!
//! | module | measures |
//! |---|---|
//! | `hash` | the request hash, by message shape |
//! | `layer` | the layer itself, without a database |
//! | `database` | claim, complete and replay on PostgreSQL |
//! | `growth` | large tables, a sweep while calls run, memory |

mod args;
mod context;
mod format;
mod plot;
mod section;
mod spread;

use clap::{Parser as _, ValueEnum as _};

use crate::{
    args::{Args, Part},
    context::Context,
    section::Section,
};

/// Why a benchmark could not be run: a sentence for a person.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args = Args::parse();
    let context = Context::new(args.smoke);
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    let mut sections = Vec::new();
    for part in parts {
        sections.push(measure(*part, &context).await?);
    }
    Ok(())
}

async fn measure(part: Part, context: &Context) -> Result<Section, Error> {
    match part {
        Part::Database | Part::Growth | Part::Hash | Part::Layer => {
            context.progress("not there yet");
            Err("not there yet".into())
        }
    }
}
