//! The past for people.

use super::happened;
use std::ops::Range;
use surefoot_console::lost_time as text;
use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration, percent};
use surefoot_console::when;
use surefoot_hostfs::cpus::format_list;
use surefoot_model::{CoreLedger, CpuId, Lost, Room};
use surefoot_store::history::KeptFinding;
use surefoot_store::history::past::{Past, Question};

/// Rows of the table of causes, and of the timelines: the newest.
const CAUSES_SHOWN: usize = 20;
const ROWS_SHOWN: usize = 50;

/// Text of others on its way to a terminal: no character moves its cursor.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The whole answer.
pub fn of(past: &Past, question: &Question) -> String {
    let mut text = headline(past, question);
    if question.asks_for(Room::Stall) && past.sum.windows > 0 {
        let cores: Vec<CoreLedger> = past.sum.cores().into_iter().map(named_plainly).collect();
        let (table, faulty) = (text::cores(&cores, past.host.as_ref()), text::faulty(&past.sum));
        text += &format!("\n{table}{faulty}\n{}", causes(past, &cores));
    }
    if question.asks_for(Room::Stall) && question.gap_count > 0 {
        text += &gaps(past);
    }
    text += &findings(past, question.asked_ns);
    text += &records(past);
    text += &notices(past);
    text += &clock_changes(past);
    if past.unknown_count > 0 {
        text += &format!(
            "\n{} rows of the history have words that this release does not know and are left out; use the release \
             that wrote them.\n",
            past.unknown_count
        );
    }
    if question.asks_for(Room::Stall) && past.sum.windows > 0 {
        text += &format!("\n{}", text::legend());
    }
    text
}

fn range_words(range: &Range<i64>) -> String {
    format!("{} to {} UTC", when::second(range.start), when::second(range.end))
}

fn headline(past: &Past, question: &Question) -> String {
    let host = past.host.as_ref().map_or(String::new(), |host| format!("{}, ", plain(&host.hostname)));
    let mut text = format!("{host}{}\n", range_words(&question.range));
    for stranger in strangers(past, question) {
        text += &format!("{stranger}\n");
    }
    if past.is_empty() {
        return text + "Nothing is kept for this range.\n" + &kept(past);
    }
    if !question.asks_for(Room::Stall) {
        return text;
    }
    if past.sum.windows == 0 {
        return text + "No core was watched in this range.\n" + &kept(past);
    }
    let cores = past.sum.cores();
    let sum = |of: fn(&CoreLedger) -> u64| cores.iter().fold(0u64, |sum, core| sum.saturating_add(of(core)));
    let (wall_ns, busy_ns, lost_ns) = (sum(|core| core.wall_ns), sum(CoreLedger::busy_ns), sum(CoreLedger::lost_ns));
    if lost_ns == 0 && !text::is_traced(past.host.as_ref()) {
        let busy = percent(busy_ns, wall_ns);
        text +=
            &format!("{} busy {busy} of the time; what was lost is not seen without eBPF.\n", cores_were(cores.len()));
        return text + &coverage(past);
    }
    text += &format!(
        "{} busy {} of the time and lost {} of {} busy time ({}){}\n",
        cores_were(cores.len()),
        percent(busy_ns, wall_ns),
        percent(lost_ns, busy_ns),
        if cores.len() == 1 { "its" } else { "their" },
        duration(lost_ns),
        largest(&past.sum.causes()),
    );
    text + &coverage(past)
}

/// `1 core was`, `4 cores were`.
fn cores_were(count: usize) -> String {
    counted(count as u64, "core was", "cores were")
}

/// The three causes that took most from busy cores.
fn largest(causes: &[Lost]) -> String {
    let mut causes: Vec<&Lost> = causes.iter().filter(|lost| lost.while_busy_ns() > 0).collect();
    causes.sort_by_key(|lost| std::cmp::Reverse(lost.while_busy_ns()));
    let shown: Vec<String> = causes
        .iter()
        .take(3)
        .map(|lost| format!("{} {}", plain(&lost.cause.to_string()), duration(lost.while_busy_ns())))
        .collect();
    if shown.is_empty() { ".".to_owned() } else { format!(": {}.", shown.join(", ")) }
}

/// How much of the range was watched, and how finely it is kept.
fn coverage(past: &Past) -> String {
    let watched = when::stretch(i64::try_from(past.watched_ns()).unwrap_or(i64::MAX));
    let from_to = past.covered.as_ref().map_or(String::new(), |covered| format!(" from {}", range_words(covered)));
    let fineness = match (past.minutes, past.seconds) {
        (0, _) => "by the second",
        (_, 0) => "by the minute",
        _ => "by the minute, the newest by the second",
    };
    format!("Watched for {watched}{from_to}, kept {fineness}.\n")
}

/// What the file keeps, where the range holds nothing.
fn kept(past: &Past) -> String {
    let ranges = [(&past.kept_seconds, "by the second"), (&past.kept_minutes, "by the minute")];
    let ranges: Vec<String> = ranges
        .iter()
        .filter_map(|(range, fineness)| range.as_ref().map(|range| format!("{fineness} from {}", range_words(range))))
        .collect();
    match ranges.as_slice() {
        [] => "The history keeps no lost time at all.\n".to_owned(),
        ranges => format!("Lost time is kept {}.\n", ranges.join(", ")),
    }
}

fn named_plainly(core: CoreLedger) -> CoreLedger {
    let plainly = |lost: Lost| {
        let name = plain(&lost.cause.name);
        Lost { cause: surefoot_model::Cause { name, ..lost.cause }, ..lost }
    };
    CoreLedger { lost: core.lost.into_iter().map(plainly).collect(), ..core }
}

/// Causes by total, with the minute in which each took most.
fn causes(past: &Past, cores: &[CoreLedger]) -> String {
    let wall_ns = cores.iter().fold(0u64, |sum, core| sum.saturating_add(core.wall_ns));
    let causes = past.sum.causes();
    if causes.is_empty() {
        return text::no_cause(past.host.as_ref()).to_owned();
    }
    let mut table = Table::new(
        &["cause", "count", "total", "share", "while idle", "max so far", "worst minute", "took in it"],
        &[0, 6],
    );
    for lost in causes.iter().take(CAUSES_SHOWN) {
        let worst = past.worst_minute(lost);
        table.row(vec![
            plain(&lost.cause.to_string()),
            lost.known_count().map_or("-".to_owned(), |count| count.to_string()),
            duration(lost.total_ns),
            percent(lost.total_ns, wall_ns),
            percent(lost.while_idle_ns, lost.total_ns),
            if lost.max_ns > 0 { duration(lost.max_ns) } else { "-".to_owned() },
            worst.map_or("-".to_owned(), |worst| when::minute(worst.start_ns)),
            worst.map_or("-".to_owned(), |worst| duration(worst.total_ns)),
        ]);
    }
    let mut text = table.text();
    if let Some(rest) = causes.get(CAUSES_SHOWN..).filter(|rest| !rest.is_empty()) {
        let rest_ns = rest.iter().fold(0u64, |sum, lost| sum.saturating_add(lost.total_ns));
        text += &format!("and {} more, {} together\n", rest.len(), duration(rest_ns));
    }
    text
}

fn gaps(past: &Past) -> String {
    if past.gaps.is_empty() {
        return "\nNo gap is kept for this range.\n".to_owned();
    }
    let mut table = Table::new(
        &["at", "core", "length", "found by", "verdict", "certainty", "untraced", "inside"],
        &[0, 3, 4, 5, 7],
    );
    for kept in &past.gaps {
        let gap = &kept.gap;
        table.row(text::gap_row(when::second(kept.start_ns), gap));
    }
    format!("\nThe longest gaps:\n{}", table.text())
}

fn findings(past: &Past, asked_ns: i64) -> String {
    let found = &past.findings;
    if found.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["from", "until", "for", "severity", "room", "about", "finding"], &[0, 1, 3, 4, 5, 6]);
    let left_out = found.len().saturating_sub(ROWS_SHOWN);
    for kept in &found[left_out..] {
        let finding = &kept.finding;
        let end_ns = kept.until_realtime_ns.unwrap_or(kept.last_seen_realtime_ns);
        table.row(vec![
            when::second(kept.from_realtime_ns),
            until(kept, past, asked_ns),
            when::stretch(end_ns.saturating_sub(kept.from_realtime_ns)),
            finding.severity.to_string(),
            finding.room.to_string(),
            plain(&finding.subject.to_string()),
            plain(&finding.sentence),
        ]);
    }
    let earlier = left_out as u64 + found.left_out_count;
    format!("\nFindings:\n{}{}", table.text(), earlier_ones(earlier))
}

/// The end of a finding; of one without, whether it holds.
fn until(kept: &KeptFinding, past: &Past, asked_ns: i64) -> String {
    match (kept.until_realtime_ns, kept.holds(past.has_writer, asked_ns)) {
        (Some(until_ns), _) => when::second(until_ns),
        (None, Some(true)) => "it holds".to_owned(),
        (None, _) => "not known".to_owned(),
    }
}

fn records(past: &Past) -> String {
    let records = &past.records;
    if records.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["at", "room", "about", "what happened"], &[0, 1, 2, 3]);
    let left_out = records.len().saturating_sub(ROWS_SHOWN);
    for record in &records[left_out..] {
        table.row(vec![
            when::second(record.at_realtime_ns),
            record.room.to_string(),
            plain(&record.subject.to_string()),
            plain(&happened::words_of(record)),
        ]);
    }
    let earlier = left_out as u64 + records.left_out_count;
    format!("\nWhat happened:\n{}{}", table.text(), earlier_ones(earlier))
}

fn notices(past: &Past) -> String {
    if past.notices.is_empty() {
        return String::new();
    }
    let left_out = past.notices.len().saturating_sub(ROWS_SHOWN);
    let mut text = String::from("\nNotices:\n");
    for (at_ns, notice) in &past.notices[left_out..] {
        text += &format!("{}  {}\n", when::second(*at_ns), plain(notice));
    }
    text + &earlier_ones(left_out as u64)
}

fn clock_changes(past: &Past) -> String {
    if past.clock_changes.is_empty() {
        return String::new();
    }
    let left_out = past.clock_changes.len().saturating_sub(ROWS_SHOWN);
    let mut text = String::from("\nThe wall clock (times are as it showed them):\n");
    for kept in &past.clock_changes[left_out..] {
        let (former, now) = (when::second(kept.former_realtime_ns), when::second(kept.at_realtime_ns));
        text += &format!("{former}  {} It then showed {now}.\n", kept.change);
    }
    text + &earlier_ones(left_out as u64)
}

fn earlier_ones(count: u64) -> String {
    if count == 0 { String::new() } else { format!("and {count} earlier ones; ask for a shorter range, or --json\n") }
}

/// What was asked for and is nowhere in the file; empty where all of it is there.
pub fn strangers(past: &Past, question: &Question) -> Vec<String> {
    let room = question.room.filter(|room| !past.known_rooms.contains(room));
    let room = room.map(|room| format!("This history keeps nothing of the room '{room}', at no time."));
    // Of a history without a host nobody knows which cores there are.
    let cpus = question.cpus.iter().filter(|cpu| !past.known_cpus.is_empty() && !past.known_cpus.contains(cpu));
    let cpus: Vec<CpuId> = cpus.copied().collect();
    let known: Vec<CpuId> = past.known_cpus.iter().copied().collect();
    let cpu = (!cpus.is_empty()).then(|| {
        let (cpus, known) = (format_list(&cpus), format_list(&known));
        format!("No core {cpus} is known to this history; the cores that were watched are {known}.")
    });
    room.into_iter().chain(cpu).collect()
}
