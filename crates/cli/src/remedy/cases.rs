//! `surefoot remedy cases`.

use super::place::PlaceOptions;
use crate::exit::Outcome;
use crate::output;
use crate::table::Table;
use crate::units::{counted, rfc3339};
use clap::Args;
use std::io::{self, Write};
use surefoot_daemon::fleet::CaseLine;

#[derive(Args)]
pub struct CasesOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// Closed cases, too
    #[arg(long)]
    all: bool,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub fn run(options: &CasesOptions) -> anyhow::Result<Outcome> {
    let cases = options.place.open()?.cases(!options.all, options.limit as usize)?;
    let mut out = io::BufWriter::new(crate::people::stdout());
    if options.json {
        output::stream(&mut out, "remedy cases")?;
        cases.iter().try_for_each(|case| output::line(&mut out, case))?;
    } else {
        out.write_all(text(&cases, options.all).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn text(cases: &[CaseLine], all: bool) -> String {
    if cases.is_empty() {
        return if all { "There are no cases.\n".into() } else { "No case is open.\n".to_owned() };
    }
    let header = ["case", "host", "service", "fault", "subject", "severity", "state", "step", "since", "waits for"];
    let mut table = Table::new(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for case in cases {
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        table.row(vec![
            case.id.to_string(),
            case.host.clone(),
            dash(&case.service),
            case.fault.clone(),
            dash(&case.subject),
            case.severity.to_string(),
            case.state.as_str().replace('_', " "),
            dash(&case.step),
            rfc3339(case.since_ns),
            dash(&case.waits_for),
        ]);
    }
    format!("{}{}\n", table.text(), counted(cases.len() as u64, "case", "cases"))
}
