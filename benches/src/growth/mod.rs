//! Tables of very different sizes, and calls during a sweep.
//!
//! | module | holds |
//! |---|---|
//! | `table` | a table of a given size, on a server of its own |
//! | `subject` | the calls that are measured |
//! | `claims` | claims and replays in tables of different sizes |
//! | `sweep` | calls without and during a sweep of expired rows |
//! | `findings` | the section of the report |

mod claims;
mod findings;
mod subject;
mod sweep;
mod table;

use self::{claims::Claims, findings::Findings, sweep::Sweeps, table::Table};
use crate::{Error, context::Context, section::Section};

/// The numbers of rows of the tables; the sweep is measured in the second one.
const ROWS: [usize; 3] = [10_000, 1_000_000, 10_000_000];

/// Measures growth.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let mut tables = Vec::new();
    for (index, rows) in ROWS.into_iter().enumerate() {
        // In a smoke run they are small, but still different.
        let rows = if context.smoke { 1_000 * (index + 1) } else { rows };
        context.progress(&format!("filling a table with {rows} rows"));
        tables.push(Table::with_rows(context, rows).await?);
    }
    let server = tables[0].world.describe().to_owned();
    let claims = Claims::measure(context, &tables).await?;

    let swept = tables.swap_remove(1);
    for table in tables {
        table.world.stop().await;
    }
    let sweeps = Sweeps::measure(context, &swept).await?;
    swept.world.stop().await;
    Ok(Findings { server, claims, sweeps }.into_section())
}
