//! `who`: whether raisers are found, and found rightly; what that costs them; whether it disturbs the watched core.

mod arrivals;
mod cost;
mod joined;
mod programs;
mod quiet;
mod raisers;
mod truth;
mod watch;

use crate::inloop;
use crate::run::Bench;
use crate::table::Row;

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    if bench.cpu == bench.other {
        rows.push(Row::new("who", "raisers").not_run("this machine has one core"));
    } else {
        let program = raisers::build(bench)?;
        // A part that fails does not cost the others their turn.
        let mut add = |what: &str, part: anyhow::Result<Vec<Row>>| {
            rows.extend(part.unwrap_or_else(|why| vec![Row::new("who", what).not_run(format!("{why:#}"))]));
        };
        add("joined and named", joined::run(bench, &program));
        add("cost of the raiser", cost::run(bench, &program));
        add("time inside its programs", Ok(programs::run(bench, &program)));
        add("own interrupts", quiet::run(bench, &program));
    }
    rows.push(inloop::run(bench)?);
    Ok(rows)
}
