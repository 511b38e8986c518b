//! Tables of very different sizes, and calls while a table is swept.
//!
//! | module | holds |
//! |---|---|
//! | `table` | a table of a size, on a server of its own |
//! | `subject` | what is measured in it |
//! | `claims` | claims and replays in tables of different sizes |
//! | `sweep` | calls before and while expired rows are swept away |
//! | `findings` | the section of the report |

mod claims;
mod findings;
mod subject;
mod sweep;
mod table;

use self::{claims::Claims, findings::Findings, sweep::Sweeps, table::Table};
use crate::{Error, context::Context, section::Section};

/// The sizes of tables; a sweep is measured in the one in the middle.
const ROWS: [usize; 3] = [10_000, 1_000_000, 10_000_000];

/// Measures growth.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let mut tables = Vec::new();
    for (index, rows) in ROWS.into_iter().enumerate() {
        // For an instant they are small, and different all the same.
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
