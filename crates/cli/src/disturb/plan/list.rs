//! `surefoot disturb workloads`.

use super::super::WorkloadsOptions;
use super::setting;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::table::Table;
use surefoot_console::{output, people};
use surefoot_disturb::workload::ready;
use surefoot_experiment::plan::lines::WorkloadLine;
use surefoot_hostfs::Root;

/// Lists the ready-made workloads.
pub fn list(options: &WorkloadsOptions) -> anyhow::Result<Outcome> {
    let setting = setting(false, &Root::host())?;
    let mut out = io::BufWriter::new(people::stdout());
    if options.json {
        output::stream(&mut out, "disturb workloads")?;
    }
    let mut table = Table::new(&["workload", "what it measures", "here"], &[0, 1, 2]);
    for known in ready::names().filter_map(|name| ready::named(name, &setting)) {
        if options.json {
            output::line(&mut out, &WorkloadLine::of(&known))?;
        }
        let here = known.unsupported.as_ref().map_or("ready".to_owned(), |why| format!("unsupported: {why}"));
        table.row(vec![known.name.into(), known.about.into(), here]);
    }
    if !options.json {
        out.write_all(table.text().as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
