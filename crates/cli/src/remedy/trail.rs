//! `surefoot remedy trail`.

use super::lines::AuditLine;
use super::place::PlaceOptions;
use super::words;
use clap::Args;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_model::AuditEntry;

#[derive(Args)]
pub struct TrailOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// At most N lines, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    limit: u64,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub fn run(options: &TrailOptions) -> anyhow::Result<Outcome> {
    let trail = options.place.open_to_read()?.trail(options.limit as usize)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "remedy trail")?;
        trail.iter().try_for_each(|entry| output::line(&mut out, &AuditLine::of(entry)))?;
    } else {
        out.write_all(text(&trail, true).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The lines as a table; of one case without its number.
pub fn text(trail: &[AuditEntry], has_case: bool) -> String {
    let header = ["when (UTC)", "case", "who", "what", "about", "why"];
    let mut table = match has_case {
        true => Table::new(&header, &[0, 2, 3, 4, 5]),
        false => Table::new(&[header[0], header[2], header[3], header[4], header[5]], &[0, 1, 2, 3, 4]),
    };
    for entry in trail {
        let mut cells = vec![
            words::second(entry.at_realtime_ns),
            words::actor(&entry.actor).to_owned(),
            entry.action.replace('_', " "),
            entry.target.clone(),
            entry.reason.clone(),
        ];
        if has_case {
            cells.insert(1, if entry.case == 0 { "-".to_owned() } else { entry.case.to_string() });
        }
        table.row(cells);
    }
    table.text()
}
