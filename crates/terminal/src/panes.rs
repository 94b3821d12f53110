//! What each pane shows of a moment.

use crate::body::{Body, Column, Styled, Table, number, words, wrap};
use crate::kept::Shown;
use ratatui_core::style::{Color, Modifier, Style};
use std::cmp::Reverse;
use std::ops::Range;
use surefoot_console::lost_time as text;
use surefoot_console::people::one_line;
use surefoot_console::units::{counted, duration, percent};
use surefoot_model::{CoreLedger, Finding, Lost, Room, Severity};

/// A part of the screen, in the order of the tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Pane {
    Cores,
    Causes,
    Who,
    Findings,
    Memory,
    Checkpoints,
    Interfaces,
    Disturbances,
    Remedies,
    Gaps,
    Notices,
}

impl Pane {
    /// Every pane, in the order of the tabs.
    pub const ALL: [Pane; 11] = [
        Pane::Cores,
        Pane::Causes,
        Pane::Who,
        Pane::Findings,
        Pane::Memory,
        Pane::Checkpoints,
        Pane::Interfaces,
        Pane::Disturbances,
        Pane::Remedies,
        Pane::Gaps,
        Pane::Notices,
    ];

    /// Its name in the tabs, short enough for all of them in 80 columns.
    pub fn tab(self) -> &'static str {
        match self {
            Pane::Cores => "Cores",
            Pane::Causes => "Causes",
            Pane::Who => "Who",
            Pane::Findings => "Findings",
            Pane::Memory => "Memory",
            Pane::Checkpoints => "Jobs",
            Pane::Interfaces => "NICs",
            Pane::Disturbances => "Disturb",
            Pane::Remedies => "Remedies",
            Pane::Gaps => "Gaps",
            Pane::Notices => "Notices",
        }
    }

    /// Its name.
    pub fn label(self) -> &'static str {
        match (self, self.room()) {
            (Pane::Who, _) => "Who interrupted the cores",
            (Pane::Notices, _) => "Notices and own cost",
            (_, Some(room)) => room.label(),
            _ => self.tab(),
        }
    }

    fn room(self) -> Option<Room> {
        match self {
            Pane::Memory => Some(Room::Memory),
            Pane::Checkpoints => Some(Room::Checkpoint),
            Pane::Interfaces => Some(Room::Nic),
            Pane::Disturbances => Some(Room::Disturb),
            Pane::Remedies => Some(Room::Remedy),
            _ => None,
        }
    }

    /// The columns that it can be sorted by.
    pub(crate) fn sorts(self) -> &'static [usize] {
        match self {
            Pane::Cores => &[1, 2, 3, 4, 0],
            Pane::Causes => &[2, 4, 1, 7],
            Pane::Who => &[3, 2, 0],
            Pane::Gaps => &[2, 0, 1],
            _ => &[],
        }
    }
}

/// How a pane is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// The place in [`Pane::sorts`].
    pub(crate) sort: usize,
    /// Only rows with these words.
    pub(crate) filter: String,
    /// Lines above the first one in sight.
    pub(crate) offset: usize,
    /// Lines that were in sight at the last drawing.
    pub(crate) page: usize,
}

impl View {
    fn wants(&self, row: &str) -> bool {
        self.filter.is_empty() || row.to_lowercase().contains(&self.filter.to_lowercase())
    }

    fn sorted(&self, pane: Pane) -> Option<usize> {
        let sorts = pane.sorts();
        sorts.get(self.sort % sorts.len().max(1)).copied()
    }
}

/// The style of a severity.
pub(crate) fn style_of(severity: Severity) -> Style {
    match severity {
        Severity::Ok => Style::new().fg(Color::Green),
        Severity::Notice => Style::new().fg(Color::Cyan),
        Severity::Warning => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Severity::Critical => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// What a pane shows, in so many columns.
pub(crate) fn body(pane: Pane, shown: &Shown, view: &View, width: usize) -> Body {
    match pane {
        Pane::Cores => cores(shown, view, width),
        Pane::Causes => causes(shown, view, width),
        Pane::Who => who(shown, view, width),
        Pane::Gaps => gaps(shown, view, width),
        Pane::Notices => notices(shown, view, width),
        Pane::Findings => findings(shown, view, width),
        _ => room(pane, shown, view, width),
    }
}

/// A table whose rows are in order, and what says what is out of sight.
fn table(
    columns: &'static [Column],
    rows: Vec<Vec<String>>,
    sorted: Option<usize>,
    width: usize,
    rest: impl Fn(Range<usize>, &[Vec<String>]) -> Vec<String> + 'static,
) -> Body {
    // The row of what is out of sight has its place in the columns, too.
    let mut all = rows.clone();
    all.push(rest(0..0, &rows));
    let table = Table::new(columns, &all, sorted, width);
    let lines = rows.iter().map(|row| (table.line(row, width), Style::new())).collect();
    let head = vec![table.head(width)];
    let rest = move |seen: Range<usize>| table.line(&rest(seen, &rows), width);
    Body { about: String::new(), head, lines, rest: Some(Box::new(rest)) }
}

const CORES: &[Column] = &[
    number("core", 0),
    number("lost", 0),
    number("while idle", 3),
    number("unexplained", 1),
    number("waited", 2),
    number("idle", 4),
    number("user", 6),
    number("kernel", 7),
    number("wall", 8),
    words("lost most to", 0),
];

fn cores(shown: &Shown, view: &View, width: usize) -> Body {
    let is_traced = text::is_traced(shown.host.as_ref());
    let row = move |name: String, core: &CoreLedger| {
        let share = |ns| percent(ns, core.wall_ns);
        let if_seen = |ns| if ns > 0 || is_traced { share(ns) } else { "-".to_owned() };
        let most = core.lost.iter().max_by_key(|lost| lost.while_busy_ns()).filter(|lost| lost.while_busy_ns() > 0);
        vec![
            name,
            if_seen(core.lost_ns()),
            if_seen(core.while_idle_ns()),
            if_seen(core.unexplained_ns),
            core.waiting.map_or("-".to_owned(), |waiting| duration(waiting.total_ns)),
            share(core.idle_ns),
            share(core.user_ns),
            share(core.kernel_ns),
            duration(core.wall_ns),
            most.map_or("-".to_owned(), |lost| format!("{} ({})", lost.cause, duration(lost.while_busy_ns()))),
        ]
    };
    let sorted = view.sorted(Pane::Cores);
    let mut chosen: Vec<CoreLedger> = shown.cores.to_vec();
    chosen.retain(|core| view.wants(&row(core.cpu.to_string(), core).join(" ")));
    // By the share of the time that it was watched: a core that came late has less of it.
    let per_wall = |ns: u64, core: &CoreLedger| (ns as f64 / core.wall_ns.max(1) as f64 * 1e12) as u64;
    chosen.sort_by_key(|core| {
        let by_lost = Reverse((per_wall(core.lost_ns(), core), per_wall(core.unexplained_ns, core)));
        let first = match sorted {
            Some(2) => per_wall(core.while_idle_ns(), core),
            Some(3) => per_wall(core.unexplained_ns, core),
            Some(4) => core.waiting.map_or(0, |waiting| waiting.total_ns),
            // By number: all the same here.
            Some(0) => u64::MAX - u64::from(core.cpu.0),
            _ => 0,
        };
        (Reverse(first), by_lost, core.cpu)
    });
    let rows = chosen.iter().map(|core| row(core.cpu.to_string(), core)).collect();
    let (count, all) = (chosen.len(), shown.cores.len());
    let order = if sorted == Some(1) { "worst first" } else { "" };
    let rest = move |seen: Range<usize>, _: &[Vec<String>]| {
        let hidden: Vec<&CoreLedger> =
            chosen.iter().enumerate().filter(|(at, _)| !seen.contains(at)).map(|(_, core)| core).collect();
        row(format!("{} more", hidden.len()), &sum_of(&hidden))
    };
    let mut body = table(CORES, rows, sorted, width, rest);
    body.about = about(count, all, order, view);
    body
}

/// Several cores as one.
fn sum_of(cores: &[&CoreLedger]) -> CoreLedger {
    let mut sum = CoreLedger::empty(cores.first().map_or(surefoot_model::CpuId(0), |core| core.cpu));
    cores.iter().for_each(|core| sum.add_times(core));
    sum.lost = Lost::by_cause(cores.iter().flat_map(|core| &core.lost));
    sum
}

/// How many there are, how they are sorted, and what was asked for.
fn about(count: usize, all: usize, order: &str, view: &View) -> String {
    let mut parts = vec![match view.filter.is_empty() {
        true => all.to_string(),
        false => format!("{count} of {all} with '{}'", one_line(&view.filter)),
    }];
    parts.extend((!order.is_empty()).then(|| order.to_owned()));
    parts.join(", ")
}

const CAUSES: &[Column] = &[
    words("cause", 0),
    number("count", 3),
    number("lost", 0),
    number("share", 1),
    number("while idle", 2),
    number("p50", 6),
    number("p99", 5),
    number("max", 4),
];

fn causes(shown: &Shown, view: &View, width: usize) -> Body {
    let wall_ns = shown.cores.iter().fold(0u64, |sum, core| sum.saturating_add(core.wall_ns));
    let is_traced = text::is_traced(shown.host.as_ref());
    let row = move |name: String, lost: &Lost| {
        let if_told = |value: Option<u64>| value.map_or("-".to_owned(), duration);
        vec![
            name,
            if lost.count > 0 { lost.count.to_string() } else { "-".to_owned() },
            duration(lost.while_busy_ns()),
            percent(lost.while_busy_ns(), wall_ns),
            if lost.while_idle_ns > 0 || is_traced { duration(lost.while_idle_ns) } else { "-".to_owned() },
            if_told(lost.quantile_ns(0.5)),
            if_told(lost.quantile_ns(0.99)),
            if lost.max_ns > 0 { duration(lost.max_ns) } else { "-".to_owned() },
        ]
    };
    let sorted = view.sorted(Pane::Causes);
    let mut chosen: Vec<Lost> = shown.causes.clone();
    chosen.retain(|lost| view.wants(&lost.cause.to_string()));
    chosen.sort_by_key(|lost| {
        let first = match sorted {
            Some(4) => lost.while_idle_ns,
            Some(1) => lost.count,
            Some(7) => lost.max_ns,
            _ => 0,
        };
        Reverse((first, lost.while_busy_ns(), lost.total_ns))
    });
    let (count, all) = (chosen.len(), shown.causes.len());
    if all == 0 {
        return sentences(text::no_cause(shown.host.as_ref()), width);
    }
    let rows = chosen.iter().map(|lost| row(lost.cause.to_string(), lost)).collect();
    let rest = move |seen: Range<usize>, _: &[Vec<String>]| {
        let hidden = chosen.iter().enumerate().filter(|(at, _)| !seen.contains(at)).map(|(_, lost)| lost);
        let mut sum = Lost::new(surefoot_model::Cause::new(surefoot_model::CauseKind::Timer, ""), 0, 0, 0);
        let mut number = 0;
        for lost in hidden {
            sum.add(lost);
            number += 1;
        }
        row(format!("{number} more"), &sum)
    };
    let mut body = table(CAUSES, rows, sorted, width, rest);
    body.about = about(count, all, "", view);
    body
}

const WHO: &[Column] = &[
    number("core", 0),
    words("interrupt", 0),
    number("count", 1),
    number("total", 0),
    number("max", 2),
    words("raised by", 0),
];

fn who(shown: &Shown, view: &View, width: usize) -> Body {
    let Some(who) = &shown.who else {
        return sentences("Raisers are not followed. Start the watch with --who CORES, for instance --who 2,3.", width);
    };
    let row = |interrupt: &surefoot_model::Interrupt| {
        let raiser = interrupt.raisers.first().map_or("not known".to_owned(), |first| {
            let process = if first.pid > 0 { format!(" (process {})", first.pid) } else { String::new() };
            let syscall = if first.syscall.is_empty() { String::new() } else { format!(" in {}", first.syscall) };
            // The call first: it says what to stop, and a narrow screen cuts the end.
            format!("{}{syscall}{process}, {} times", first.comm, first.count)
        });
        vec![
            interrupt.cpu.to_string(),
            interrupt.cause.to_string(),
            interrupt.count.to_string(),
            duration(interrupt.total_ns),
            duration(interrupt.max_ns),
            raiser,
        ]
    };
    let sorted = view.sorted(Pane::Who);
    let mut chosen: Vec<&surefoot_model::Interrupt> = who.interrupts.iter().collect();
    chosen.retain(|interrupt| view.wants(&row(interrupt).join(" ")));
    chosen.sort_by_key(|interrupt| {
        let first = match sorted {
            Some(2) => interrupt.count,
            Some(0) => u64::MAX - u64::from(interrupt.cpu.0),
            _ => interrupt.total_ns,
        };
        Reverse((first, interrupt.total_ns))
    });
    let (count, all) = (chosen.len(), who.interrupts.len());
    let mut body = plain_table(WHO, chosen.into_iter().map(row).collect(), sorted, width);
    body.about = format!(
        "{}, in {} since the start",
        about(count, all, "", view),
        duration(who.end_ns.saturating_sub(who.start_ns))
    );
    body
}

/// A table whose rest is a number alone.
fn plain_table(columns: &'static [Column], rows: Vec<Vec<String>>, sorted: Option<usize>, width: usize) -> Body {
    let count = rows.len();
    let mut body = table(columns, rows, sorted, width, |_, _| Vec::new());
    body.rest = Some(Box::new(move |seen| format!("{} more", count.saturating_sub(seen.len()))));
    body
}

const GAPS: &[Column] = &[
    number("at", 1),
    number("core", 0),
    number("length", 0),
    words("found by", 4),
    words("verdict", 0),
    words("certainty", 3),
    number("untraced", 2),
    words("inside", 0),
];

fn gaps(shown: &Shown, view: &View, width: usize) -> Body {
    let row = |gap: &surefoot_model::Gap| text::gap_row(text::since(gap, shown.gaps_from_ns), gap);
    let sorted = view.sorted(Pane::Gaps);
    let mut chosen: Vec<&surefoot_model::Gap> = shown.gaps.iter().collect();
    if chosen.is_empty() {
        return sentences("No gap was found in this time.", width);
    }
    chosen.retain(|gap| view.wants(&row(gap).join(" ")));
    chosen.sort_by_key(|gap| {
        let first = match sorted {
            Some(0) => gap.start_ns,
            Some(1) => u64::MAX - u64::from(gap.cpu.0),
            _ => gap.duration_ns,
        };
        Reverse((first, gap.duration_ns))
    });
    let count = chosen.len();
    let mut body = plain_table(GAPS, chosen.into_iter().map(row).collect(), sorted, width);
    let order = if sorted == Some(2) { "longest first" } else { "" };
    body.about = about(count, shown.gaps.len(), order, view);
    body
}

/// Sentences and nothing else.
fn sentences(text: &str, width: usize) -> Body {
    let lines = text.lines().flat_map(|line| wrap(line, width, 2)).map(|line| (line, Style::new())).collect();
    Body { about: String::new(), head: Vec::new(), lines, rest: None }
}

/// These words where the judge looked.
fn no_finding(shown: &Shown, words: &str) -> String {
    let unknown = "What was found at this moment is not known here.";
    if shown.judged.is_known { words.to_owned() } else { unknown.to_owned() }
}

fn findings(shown: &Shown, view: &View, width: usize) -> Body {
    let all: Vec<&Finding> = shown.judged.findings.iter().filter(|finding| finding.severity > Severity::Ok).collect();
    let chosen: Vec<&Finding> =
        all.iter().copied().filter(|one| view.wants(&format!("{} {}", one.room.label(), one.sentence))).collect();
    let mut lines: Vec<Styled> = chosen.iter().flat_map(|one| finding(one, true, width)).collect();
    if all.is_empty() {
        lines.push((no_finding(shown, "No finding above ok."), Style::new()));
    }
    Body { about: about(chosen.len(), all.len(), "", view), head: Vec::new(), lines, rest: Some(more_lines()) }
}

/// A finding with its evidence.
fn finding(one: &Finding, has_room: bool, width: usize) -> Vec<Styled> {
    let room = if has_room { format!("{}: ", one.room.label()) } else { String::new() };
    let sentence = format!("{}: {room}{}", one.severity, one.sentence);
    let said = wrap(&sentence, width, 2).into_iter().map(|line| (line, style_of(one.severity)));
    let evidence = one.evidence.iter().flat_map(|line| wrap(line, width.saturating_sub(4), 2));
    said.chain(evidence.map(|line| (format!("    {line}"), Style::new()))).collect()
}

fn more_lines() -> crate::body::Rest {
    Box::new(|_| "more below and above: arrows and page keys".to_owned())
}

fn room(pane: Pane, shown: &Shown, view: &View, width: usize) -> Body {
    let mut lines = Vec::new();
    let room = pane.room();
    let state = shown.rooms.iter().find(|state| Some(state.room) == room);
    let standing = match state.map(|state| &state.why_not_watched) {
        Some(None) => "watched".to_owned(),
        Some(Some(why)) => {
            lines.extend(wrap(&format!("Not watched: {why}"), width, 2).into_iter().map(|line| (line, Style::new())));
            "not watched".to_owned()
        }
        None => "not known yet".to_owned(),
    };
    let of_room = shown.judged.findings.iter().filter(|finding| Some(finding.room) == room);
    let (chosen, others): (Vec<&Finding>, Vec<&Finding>) = of_room.partition(|one| view.wants(&one.sentence));
    lines.extend(chosen.iter().flat_map(|one| finding(one, false, width)));
    if chosen.is_empty() && others.is_empty() && standing == "watched" {
        lines.push((no_finding(shown, "No finding."), Style::new()));
    }
    let about = match others.len() {
        0 => format!("{standing}, {}", counted(chosen.len() as u64, "finding", "findings")),
        _ => format!("{standing}, {}", about(chosen.len(), chosen.len() + others.len(), "", view)),
    };
    Body { about, head: Vec::new(), lines, rest: Some(more_lines()) }
}

fn notices(shown: &Shown, view: &View, width: usize) -> Body {
    let mut texts = Vec::new();
    if let Some(host) = &shown.host {
        texts.extend((!host.missing.is_empty()).then(|| format!("Reduced: {}", one_line(&host.missing))));
        texts.push(one_line(&format!("{}: Linux {} on {}", host.hostname, host.kernel, host.processor)));
        if !host.workload.is_empty() {
            texts.push(one_line(&format!("Workload: {}", host.workload)));
        }
    }
    texts.extend(shown.banner.iter().map(|banner| one_line(banner)));
    texts.extend(shown.faulty.lines().map(str::to_owned));
    texts.extend(text::apart_from_waiting(&shown.cores).lines().map(str::to_owned));
    texts.extend(shown.notices.iter().rev().map(|notice| format!("Notice: {notice}")));
    if shown.is_of_history {
        texts.push("The history keeps no histograms, raisers and own cost.".to_owned());
    } else {
        texts.extend(text::cost(&shown.cost, shown.duration_ns).lines().map(str::to_owned));
    }
    let mut lines = Vec::new();
    for finding_of_watch in shown.judged.findings.iter().filter(|one| one.room == Room::Watch) {
        lines.extend(finding(finding_of_watch, false, width));
    }
    texts.retain(|text| view.wants(text));
    lines.extend(texts.iter().flat_map(|text| wrap(text, width, 2)).map(|line| (line, Style::new())));
    let about = match shown.notices.len() as u64 {
        0 => "no notice".to_owned(),
        count => counted(count, "notice", "notices"),
    };
    Body { about, head: Vec::new(), lines, rest: Some(more_lines()) }
}
