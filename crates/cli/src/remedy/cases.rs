//! `surefoot remedy cases`.

use super::lines::CaseRow;
use super::place::PlaceOptions;
use super::words::age;
use clap::Args;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::counted;
use surefoot_controller::{CaseLine, CaseList, words};
use surefoot_hostfs::clock;
use surefoot_model::one_line;

#[derive(Args)]
pub struct CasesOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// Closed cases, too
    #[arg(long)]
    all: bool,
    /// At most N, the newest
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub fn run(options: &CasesOptions) -> anyhow::Result<Outcome> {
    let list = options.place.open()?.cases(!options.all, options.limit as usize)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "remedy cases")?;
        list.cases.iter().try_for_each(|case| output::line(&mut out, &CaseRow::of(case)))?;
    } else {
        let is_full = list.cases.len() as u64 >= options.limit;
        out.write_all(text(&list, [options.all, is_full], &options.place.words(), clock::realtime_ns()).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn text(list: &CaseList, [all, is_full]: [bool; 2], place: &str, now_ns: u64) -> String {
    let mut text = if list.cases.is_empty() { String::new() } else { table(&list.cases, now_ns) };
    let shown = list.cases.len() as u64;
    text += &match (shown, all) {
        (0, true) => "No cases.\n".to_owned(),
        (_, true) if is_full => format!("The newest {}; there may be more: --limit\n", counted(shown, "case", "cases")),
        (_, true) => format!("{}\n", counted(shown, "case", "cases")),
        (_, false) if shown < list.open_count => {
            // Of the others nothing is known here.
            let of_shown = words::headline(&list.cases, shown).sentence;
            format!(
                "{} open cases. Of the newest {shown} (--limit shows more): {}\n",
                list.open_count,
                one_line(&of_shown)
            )
        }
        (_, false) => format!("{}\n", one_line(&words::headline(&list.cases, list.open_count).sentence)),
    };
    for notice in &list.notices {
        text += &format!(
            "{}; `surefoot remedy release HOST{place}` takes the name away from the first.\n",
            one_line(notice)
        );
    }
    if list.is_paused {
        text += &format!(
            "Everything is paused: `surefoot remedy trail{place}` says by whom and why; `surefoot remedy resume{place}` ends the pause.\n"
        );
    }
    text
}

fn table(cases: &[CaseLine], now_ns: u64) -> String {
    let header = ["case", "host", "service", "fault", "subject", "severity", "state", "for", "step", "waits for"];
    let mut table = Table::new(&header, &[1, 2, 3, 4, 5, 6, 8, 9]);
    for case in cases {
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        table.row(vec![
            case.id.to_string(),
            case.host.clone(),
            dash(&case.service),
            case.fault.clone(),
            dash(&case.subject),
            case.severity.to_string(),
            format!("{}{}", words::label(case.state, case.ends_as), if case.is_dry_run { ", dry run" } else { "" }),
            age(case.state_since_ns, now_ns),
            dash(&case.step),
            dash(&case.waits_for),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{CaseState, Severity};

    fn case(id: u64, state: CaseState) -> CaseLine {
        CaseLine {
            id,
            host: format!("n{id}"),
            service: "web".into(),
            fault: "memory/fault".into(),
            subject: "dimm A1".into(),
            severity: Severity::Critical,
            state,
            label: words::label(state, None),
            step: "drain".into(),
            since_ns: 0,
            state_since_ns: 60_000_000_000,
            waits_for: String::new(),
            policy: "web-1".into(),
            ticket: String::new(),
            is_dry_run: id == 2,
            ends_as: None,
        }
    }

    #[test]
    fn a_list_says_how_long_whose_turn_it_is_and_what_is_left_out() {
        let cases = vec![case(1, CaseState::WithPerson), case(2, CaseState::Waiting)];
        let of = |cases, open_count, is_paused| CaseList {
            cases,
            open_count,
            is_paused,
            headline: None,
            states: Vec::new(),
            notices: Vec::new(),
        };
        let list = of(cases, 7, true);
        let said = text(&list, [false, true], " --server https://ctl:7443", 180_000_000_000);
        for part in [
            "with a person",
            "2 min",
            "waiting, dry run",
            "7 open cases. Of the newest 2 (--limit shows more): 2 open cases; 1 needs manual action: n1.\n",
            "Everything is paused: `surefoot remedy trail --server https://ctl:7443`",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
        assert_eq!(text(&of(Vec::new(), 0, false), [false, false], "", 1), "No open cases.\n");
        let running = |open_count| of(vec![case(2, CaseState::Waiting)], open_count, false);
        let said = text(&running(7), [false, true], "", 1);
        assert!(
            said.ends_with(
                "7 open cases. Of the newest 1 (--limit shows more): 1 open case; no manual action needed.\n"
            )
        );
        let said = text(&running(1), [true, true], "", 1);
        assert!(said.ends_with("The newest 1 case; there may be more: --limit\n"), "{said}");
        let said = text(&running(1), [true, false], "", 1);
        assert!(said.ends_with("\n1 case\n"), "{said}");
    }
}
