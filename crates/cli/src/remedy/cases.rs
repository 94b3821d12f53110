//! `surefoot remedy cases`.

use super::lines::{CaseRow, PageLine};
use super::place::PlaceOptions;
use super::words::age;
use clap::Args;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::counted;
use surefoot_console::when;
use surefoot_controller::{CaseLine, CaseList, words};
use surefoot_hostfs::clock;
use surefoot_model::one_line;
use surefoot_store::cases::{Before, CaseQuery};

#[derive(Args)]
pub struct CasesOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// Closed cases, too
    #[arg(long)]
    all: bool,
    /// The cases of this host alone
    #[arg(long, value_name = "NAME", value_parser = super::ask::host_name)]
    host: Option<String>,
    /// Older cases alone: those before a case, by its number, or opened before a time such as '2026-11-21 03:00' or 'yesterday 03:00'
    #[arg(long, value_name = "CASE|TIME", value_parser = before)]
    before: Option<Before>,
    /// At most N, the newest
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

fn before(text: &str) -> Result<Before, String> {
    if let Ok(id) = text.parse() {
        return Ok(Before::Case(id));
    }
    let now_ns = i64::try_from(clock::realtime_ns()).unwrap_or(i64::MAX);
    let at_ns = when::parse(text, now_ns).map_err(|why| format!("{why}; or the number of a case"))?;
    Ok(Before::Time(u64::try_from(at_ns).unwrap_or(0)))
}

pub fn run(options: &CasesOptions) -> anyhow::Result<Outcome> {
    let query = CaseQuery {
        open_only: !options.all,
        host: options.host.clone(),
        before: options.before,
        limit: options.limit as usize,
    };
    let list = options.place.open_to_read()?.cases(&query)?;
    options.place.store.tell_saved();
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "remedy cases")?;
        list.cases.iter().try_for_each(|case| output::line(&mut out, &CaseRow::of(case)))?;
        output::line(&mut out, &PageLine::of(&list))?;
    } else {
        out.write_all(text(&list, &query, &options.place.words(), clock::realtime_ns()).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn text(list: &CaseList, query: &CaseQuery, place: &str, now_ns: u64) -> String {
    let mut text = if list.cases.is_empty() { String::new() } else { table(&list.cases, now_ns) };
    text += &page(list, query, place);
    if let Some(headline) = &list.headline {
        text += &format!("{}\n", one_line(&headline.sentence));
    }
    for unread in &list.unread {
        let says = one_line(&unread.says);
        // It ends with the command, which is to lead to the same place.
        let says = says.strip_suffix('`').map_or(says.clone(), |says| format!("{says}{place}`"));
        text += &format!("{says}.\n");
    }
    let listed = list.unread.iter().filter(|unread| unread.is_open).count() as u64;
    if listed < list.unread_open_count {
        text += &format!("{} more open cases cannot be read.\n", list.unread_open_count - listed);
    }
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

/// How many of the cases that are asked for the table shows, and how to see the others.
fn page(list: &CaseList, query: &CaseQuery, place: &str) -> String {
    let of = if query.open_only { ("open case", "open cases") } else { ("case", "cases") };
    let shown = list.cases.len() as u64;
    let host = query.host.as_ref().map_or_else(String::new, |host| format!(" of {host}"));
    let is_first = query.before.is_none();
    let newest = if is_first { "The newest " } else { "" };
    match (list.left_out, list.total) {
        // One that cannot be read is in no row.
        (Some(0), Some(total)) if total > shown && (shown > 0 || is_first) => {
            format!("{shown} of {}{host}\n", counted(total, of.0, of.1))
        }
        (Some(0), _) if shown == 0 && !is_first => format!("No {}{host} before that.\n", of.1),
        // The headline says it.
        (Some(0), _) if query.open_only && query.host.is_none() => String::new(),
        (Some(0), _) if shown == 0 => format!("No {}{host}.\n", of.1),
        (Some(0), _) => format!("{}{host}\n", counted(shown, of.0, of.1)),
        (Some(_), total) => {
            let total = counted(total.unwrap_or(shown), of.0, of.1);
            let all = if query.open_only { "" } else { " --all" };
            let host_option = query.host.as_ref().map_or_else(String::new, |host| format!(" --host {host}"));
            let before = list.next_before.map_or_else(String::new, |id| format!(" --before {id}"));
            format!(
                "{newest}{shown} of {total}{host}; `surefoot remedy cases{all}{host_option}{before}{place}` lists older ones\n"
            )
        }
        (None, _) if shown >= query.limit as u64 => {
            format!(
                "{newest}{shown} {}{host}; the controller is of an older release and does not say how many there are\n",
                of.1
            )
        }
        (None, _) => format!("{}{host}\n", counted(shown, of.0, of.1)),
    }
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
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_controller::UnreadLine;
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

    fn list(cases: Vec<CaseLine>, total: u64, left_out: u64) -> CaseList {
        let next_before = cases.last().map(|case| case.id).filter(|_| left_out > 0);
        CaseList {
            cases,
            open_count: 7,
            total: Some(total),
            left_out: Some(left_out),
            next_before,
            unread: Vec::new(),
            unread_open_count: 0,
            is_paused: false,
            headline: None,
            states: Vec::new(),
            notices: Vec::new(),
        }
    }

    #[test]
    fn a_list_says_how_long_whose_turn_it_is_and_what_is_left_out() {
        let cases = vec![case(4, CaseState::WithPerson), case(2, CaseState::Waiting)];
        let sentence = "7 open cases; 1 needs manual action: n4.".to_owned();
        let headline = Some(surefoot_model::Headline::new(Severity::Warning, sentence));
        let says = "case 1 of n9 cannot be read (x); close it with `surefoot remedy cancel 1`".to_owned();
        let unread = vec![UnreadLine { id: 1, host: "n9".into(), is_open: true, says }];
        let list = CaseList { is_paused: true, headline, unread, unread_open_count: 3, ..list(cases, 7, 5) };
        let query = CaseQuery { open_only: true, limit: 2, ..CaseQuery::default() };
        let said = text(&list, &query, " --server https://ctl:7443", 180_000_000_000);
        for part in [
            "with a person",
            "2 min",
            "waiting, dry run",
            "The newest 2 of 7 open cases; `surefoot remedy cases --before 2 --server https://ctl:7443` lists older ones",
            "7 open cases; 1 needs manual action: n4.",
            "case 1 of n9 cannot be read (x); close it with `surefoot remedy cancel 1 --server https://ctl:7443`.",
            "2 more open cases cannot be read.",
            "Everything is paused: `surefoot remedy trail --server https://ctl:7443`",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }

    #[test]
    fn a_page_says_what_it_is_of() {
        let of_host = CaseQuery { host: Some("n4".into()), limit: 1, ..CaseQuery::default() };
        let one = || vec![case(4, CaseState::Returned)];
        assert_eq!(page(&list(one(), 1, 0), &of_host, ""), "1 case of n4\n");
        let older =
            "The newest 1 of 3 cases of n4; `surefoot remedy cases --all --host n4 --before 4` lists older ones\n";
        assert_eq!(page(&list(one(), 3, 2), &of_host, ""), older);
        let last = CaseQuery { before: Some(Before::Case(5)), ..of_host.clone() };
        assert_eq!(page(&list(one(), 3, 0), &last, ""), "1 of 3 cases of n4\n");
        assert_eq!(page(&list(Vec::new(), 3, 0), &last, ""), "No cases of n4 before that.\n");
        // A controller of an older release does not say.
        let silent = CaseList { total: None, left_out: None, ..list(one(), 0, 0) };
        assert!(page(&silent, &of_host, "").contains("does not say how many there are"));
        for (text, place) in [("17", Before::Case(17)), ("1970-01-01T00:00:01Z", Before::Time(1_000_000_000))] {
            assert_eq!(before(text).unwrap(), place);
        }
        assert!(before("soon").unwrap_err().ends_with("or the number of a case"));
    }
}
