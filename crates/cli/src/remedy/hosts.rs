//! `surefoot fleet top`: the hosts by rooms, the worst first.

use super::place::PlaceOptions;
use super::words::age;
use clap::{Args, Subcommand};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::parse_time;
use surefoot_controller::{Cell, HostLine, HostList, HostOrder, HostQuery, Population};
use surefoot_model::{Headline, Room, Severity, one_line};
use surefoot_sys::{signals, stdout, terminal};
use surefoot_terminal::cut;

#[derive(Subcommand)]
pub enum FleetCommand {
    /// The hosts of a controller by rooms, the worst first: what is wrong, since when, and where nothing is known.
    Top(TopOptions),
}

#[derive(Args)]
pub struct TopOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// The hosts of this service alone
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The hosts with a finding in this room alone: stall, memory, checkpoint, nic, disturb, remedy or watch
    #[arg(long, value_name = "ROOM", value_parser = room)]
    room: Option<Room>,
    /// The hosts whose name, service or findings contain this text
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Which host comes first: the worst, the one that loses most time, or by name
    #[arg(long, value_name = "worst|lost|name", default_value = "worst")]
    sort: HostOrder,
    /// At most N hosts; in a terminal as many as fit
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    limit: u64,
    /// In a terminal, ask again after this time
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    every: Duration,
    /// Print once and end, also in a terminal
    #[arg(long)]
    once: bool,
    /// Print JSON lines, once
    #[arg(long)]
    json: bool,
}

fn room(text: &str) -> Result<Room, String> {
    let found = Room::ALL.into_iter().find(|room| room.as_str() == text);
    found.ok_or_else(|| format!("one of {}", Room::ALL.map(Room::as_str).join(", ")))
}

/// What a list of hosts is of, after the hosts.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "host_page")]
pub struct HostPageLine<'a> {
    /// The time of the store, `CLOCK_REALTIME`.
    now_ns: u64,
    /// All hosts in one sentence.
    headline: &'a Headline,
    /// How many hosts match.
    matching: u64,
    /// How many hosts there are.
    total: u64,
    /// Hosts and alerts that had no room in the controller's answer, or could not be read.
    left_out: u64,
    /// What the hosts run on.
    populations: &'a [Population],
}

pub fn run(command: &FleetCommand) -> anyhow::Result<Outcome> {
    let FleetCommand::Top(options) = command;
    let mut place = options.place.open_to_read()?;
    let query = HostQuery {
        service: options.service.clone(),
        room: options.room,
        search: options.search.clone(),
        order: options.sort,
        limit: options.limit as usize,
    };
    if options.json {
        let list = place.hosts(&query)?;
        let mut out = io::BufWriter::new(surefoot_console::people::stdout());
        output::stream(&mut out, "fleet top")?;
        list.hosts.iter().try_for_each(|host| output::line(&mut out, host))?;
        let HostList { now_ns, headline, matching, total, left_out, populations, .. } = &list;
        let (now_ns, matching, total, left_out) = (*now_ns, *matching, *total, *left_out);
        output::line(&mut out, &HostPageLine { now_ns, headline, matching, total, left_out, populations })?;
        out.flush()?;
        return Ok(Outcome::Done);
    }
    if options.once || !io::stdout().is_terminal() {
        let list = place.hosts(&query)?;
        surefoot_console::people::stdout().write_all(text(&list, usize::MAX, usize::MAX).as_bytes())?;
        return Ok(Outcome::Done);
    }
    let stop = signals::stop_flag()?;
    while !stop.load(Ordering::Relaxed) {
        let (columns, rows) = terminal::size().map_or((80, 24), |(columns, rows)| (columns.into(), rows.into()));
        // A controller that does not answer once is asked again; what is on the screen then says so.
        // What is read of a store in a file is of the moment in which it was opened.
        let asked = options.place.open_to_read().and_then(|mut place| Ok(place.hosts(&query)?));
        let seen = match asked {
            Ok(list) => text(&list, columns, rows),
            Err(error) => format!("{}\n", cut(&one_line(&format!("No newer answer: {error}")), columns)),
        };
        stdout::stdout().write_all(format!("\x1b[H\x1b[J{seen}").as_bytes())?;
        let due = Instant::now() + options.every;
        while !stop.load(Ordering::Relaxed) && Instant::now() < due {
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        }
    }
    Ok(Outcome::Done)
}

/// Columns of the sentence that a narrow screen is not to take away.
const SENTENCE_MIN: usize = 10;

/// The screen: headline, table, what has no room, legend. Exactly as many rows as fit, the last line of the screen left free.
fn text(list: &HostList, columns: usize, rows: usize) -> String {
    let fit = rows.saturating_sub(6).max(1);
    let shown = &list.hosts[..list.hosts.len().min(fit)];
    let mut table =
        Table::new(&["host", "service", "sta mem chk nic dis rem wat oth", "lost", "for", "worst"], &[0, 1, 2, 5]);
    for host in shown {
        let worst = worst(host);
        let mut cells = vec![cut(&host.host, 24), cut(if host.service.is_empty() { "-" } else { &host.service }, 12)];
        let rooms = Room::ALL.map(|room| cell(host, room));
        let others = host.alerts.as_ref().map_or_else(String::new, letter);
        cells.push(rooms.iter().chain([&others]).map(|cell| format!("{cell:<4}")).collect());
        cells.push(lost(host));
        cells.push(worst.map_or_else(|| "-".to_owned(), |cell| age(cell.since_ns, list.now_ns)));
        cells.push(match worst {
            Some(cell) => cell.sentence.clone(),
            None if host.is_silent => "its agent is silent".to_owned(),
            None => String::new(),
        });
        table.row(cells);
    }
    let mut text = format!("{}\n", one_line(&list.headline.sentence));
    if !shown.is_empty() {
        text += &table.text();
    }
    let hidden = list.matching.saturating_sub(shown.len() as u64);
    text += &match (list.matching, hidden) {
        (0, _) if list.total == 0 => "No host: no agent tells of one, and no alert fires.\n".to_owned(),
        (0, _) => format!("None of {} hosts matches.\n", list.total),
        (_, 0) => String::new(),
        (matching, hidden) => format!("{hidden} more of {matching} hosts\n"),
    };
    if list.left_out > 0 {
        text += &format!("{} hosts or alerts had no room or could not be read.\n", list.left_out);
    }
    text += "C critical, W warning, n notice, . well, ? not known; number: findings\n";
    text += "lost: of the time of an average core, unexplained time included; >= counters only\n";
    let width = columns.max(SENTENCE_MIN);
    text.lines().map(|line| format!("{}\n", cut(line, width))).collect()
}

/// What an average core loses, of each second.
fn lost(host: &HostLine) -> String {
    host.lost.map_or_else(
        || "?".to_owned(),
        |lost| format!("{}{:.1} %", if lost.is_traced { "" } else { ">=" }, lost.mean_ns_per_s() as f64 / 1e7),
    )
}

fn worst(host: &HostLine) -> Option<&Cell> {
    let cells = host.found.values().chain(&host.alerts);
    cells.min_by_key(|cell| (std::cmp::Reverse(cell.severity), cell.since_ns))
}

fn cell(host: &HostLine, room: Room) -> String {
    match host.found.get(&room) {
        Some(found) => letter(found),
        None if host.well.contains(&room) => ".".to_owned(),
        None => "?".to_owned(),
    }
}

fn letter(cell: &Cell) -> String {
    let letter = match cell.severity {
        Severity::Critical => 'C',
        Severity::Warning => 'W',
        Severity::Notice => 'n',
        Severity::Ok => '.',
    };
    match cell.count {
        1 => letter.to_string(),
        count => format!("{letter}{}", count.min(99)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn list(count: u64) -> HostList {
        let found = |severity, count, sentence: &str| Cell { severity, since_ns: 0, sentence: sentence.into(), count };
        let hosts = (0..count).map(|number| HostLine {
            host: format!("n{number}"),
            service: "web".into(),
            found: [(Room::Memory, found(Severity::Critical, 2, "DIMM A1 has uncorrected errors."))].into(),
            severity: Some(Severity::Critical),
            well: vec![Room::Stall],
            ..HostLine::default()
        });
        HostList {
            now_ns: 185_000_000_000,
            headline: Headline::new(Severity::Critical, format!("{count} hosts: {count} critical.")),
            hosts: hosts.collect(),
            matching: count,
            total: count,
            left_out: 0,
            populations: Vec::new(),
            host_page: None,
        }
    }

    #[test]
    fn a_screen_holds_what_fits_and_counts_the_rest() {
        let screen = text(&list(100), 80, 24);
        let lines: Vec<&str> = screen.lines().collect();
        assert!(lines.len() < 24 && lines.iter().all(|line| line.chars().count() <= 80), "{screen}");
        assert_eq!(lines[0], "100 hosts: 100 critical.");
        assert!(lines[2].starts_with("n0    web      .   C2  ?   ?"), "{screen}: rooms in the order of the header");
        assert!(lines[2].contains("3 min 5 s") && lines[2].contains("DIMM A1"), "{screen}");
        assert!(screen.contains("\n82 more of 100 hosts\n"), "{screen}");
        assert!(text(&list(100), 20, 3).lines().count() <= 6, "a tiny screen has one host");
    }

    #[test]
    fn no_host_and_no_match_are_told_apart_and_silence_is_said() {
        let mut none = list(0);
        none.headline = Headline::new(Severity::Ok, "0 hosts: no warnings.");
        assert!(text(&none, 80, 24).contains("No host: no agent"), "{}", text(&none, 80, 24));
        let no_match = HostList { total: 7, ..none };
        assert!(text(&no_match, 80, 24).contains("None of 7 hosts matches."));
        let mut silent = list(1);
        silent.hosts[0] = HostLine { host: "n\u{1b}[2J".into(), is_silent: true, ..HostLine::default() };
        let screen = text(&silent, 80, 24);
        assert!(screen.contains("its agent is silent") && !screen.contains('\u{1b}'), "{screen}");
    }
}
