//! Reports of lost time as text: of a watch, of a history, of a recording, of one command.

use crate::table::Table;
use crate::units::{bytes, counted, duration, percent};
use serde_json::Value;
use surefoot_model::{
    Capability, CapabilityState, CoreLedger, Gap, GapSource, HostDescription, Lost, ProbeCost, Report, SelfCost,
    Untimed, Waiting, WhoReport, one_line,
};

/// What the columns of lost time mean: the word, four spaces, the meaning.
pub const LOST: &str = "lost    time that interrupts, softirqs, kernel threads, the hypervisor or the firmware took from a task that ran or waited for this core";
/// As [`LOST`].
pub const WHILE_IDLE: &str =
    "while idle    the same where it delayed no task: the core idled, or a kernel thread had it for itself";
/// As [`LOST`].
pub const UNEXPLAINED: &str = "unexplained    time of a core that no source accounts for";
/// As [`LOST`].
pub const WAITED: &str = "waited    how long tasks that could run waited for this core, added up over all tasks: two that wait at once wait twice. No part of a \
     core's time";
/// As [`LOST`].
pub const UNTRACED: &str = "untraced    the part of a gap that no traced interval covers";

/// As [`LOST`].
pub const RUN_DELAY: &str = "run delay    verdict where nothing is traced: the kernel counted that the thread that found the gap waited for its core, \
     which another task had";

/// The legend below tables of lost time.
pub fn legend() -> String {
    let line = |line: &str| {
        let (word, meaning) = line.split_once("    ").unwrap_or((line, ""));
        format!("  {word:<12} {meaning}\n")
    };
    format!("Words:\n{}", [LOST, WHILE_IDLE, UNEXPLAINED, WAITED, UNTRACED, RUN_DELAY].map(line).concat())
}

/// Rows of the tables of causes and gaps.
const ROWS_SHOWN: usize = 20;
const GAPS_SHOWN: usize = 10;
const PROBES_SHOWN: usize = 6;
const FAULTY_SHOWN: usize = 8;

/// A whole report; of its causes those that `wanted` picks.
pub fn report(report: &Report, wanted: impl Fn(&Lost) -> bool) -> String {
    let mut text = String::new();
    if let Some(host) = &report.host {
        let below = host.hypervisor.as_ref().map_or("bare metal".to_owned(), |name| format!("in a {name} guest"));
        text += &one_line(&format!("{}: Linux {} on {}, {below}", host.hostname, host.kernel, host.processor));
        text.push('\n');
        text += &format!(
            "{} in {} windows, from {}",
            duration(report.duration_ns()),
            report.windows,
            one_line(&host.source)
        );
        text += &match host.workload.as_str() {
            "" if host.is_traced() => "; no workload named: tasks that preempt each other lose nothing\n".to_owned(),
            "" => "\n".to_owned(),
            workload => format!("; workload: {}\n", one_line(workload)),
        };
        if !host.missing.is_empty() {
            text += &format!("Reduced: {}\n", one_line(&host.missing));
        }
    }
    if report.windows == 0 {
        return text + "No window was completed, so there is nothing to report.\n";
    }
    text += "\n";
    let host = report.host.as_ref();
    text += &cores(&report.cores(), host);
    text += &faulty(report);
    text += "\n";
    text += &causes(&report.causes(), &report.cores(), host, wanted);
    text += "\n";
    text += &gaps(report);
    text += &completeness(report);
    for notice in &report.notices {
        text += &format!("Notice: {}\n", one_line(&notice.text));
    }
    for change in report.clock.changes() {
        text += &format!("Notice: {change}\n");
    }
    text += &cost(&report.cost, report.duration_ns());
    text += &legend();
    text
}

/// A report with every text in it on one line, so that a text of another user begins no line of ours. Without its timeline, of which no
/// text is made.
pub fn on_one_line(report: &WhoReport) -> WhoReport {
    fn flatten(value: &mut Value) {
        match value {
            Value::String(text) if text.contains(['\n', '\t']) => *text = text.replace(['\n', '\t'], "?"),
            Value::Array(values) => values.iter_mut().for_each(flatten),
            Value::Object(fields) => fields.values_mut().for_each(flatten),
            _ => {}
        }
    }
    let shown = WhoReport { timeline: None, ..report.clone() };
    // Only the values are looked at, never the names of fields, so what was serialised is read back.
    let flat = serde_json::to_value(&shown).and_then(|mut all| {
        flatten(&mut all);
        serde_json::from_value(all)
    });
    flat.unwrap_or(shown)
}

/// Whether single interruptions were seen: where they were not, a 0 means nothing.
pub fn is_traced(host: Option<&HostDescription>) -> bool {
    host.is_none_or(HostDescription::is_traced)
}

/// The sentence in place of a table of causes that has no row.
pub fn no_cause(host: Option<&HostDescription>) -> &'static str {
    if is_traced(host) {
        "No time was lost to a named cause.\n"
    } else {
        "What was lost, and to what, is not seen without eBPF.\n"
    }
}

/// The ledger of each core. The shares add up to its wall time.
pub fn cores(cores: &[CoreLedger], host: Option<&HostDescription>) -> String {
    let mut table = Table::new(
        &[
            "core",
            "wall",
            "idle",
            "user",
            "kernel",
            "lost",
            "while idle",
            "unexplained",
            "tasks waited",
            "lost most to",
        ],
        &[9],
    );
    for core in cores {
        let share = |ns| percent(ns, core.wall_ns);
        let if_seen = |ns| if ns > 0 || is_traced(host) { share(ns) } else { "-".to_owned() };
        let most = core.lost.iter().max_by_key(|lost| lost.while_busy_ns()).filter(|lost| lost.while_busy_ns() > 0);
        table.row(vec![
            core.cpu.to_string(),
            duration(core.wall_ns),
            share(core.idle_ns),
            share(core.user_ns),
            share(core.kernel_ns),
            if_seen(core.lost_ns()),
            if_seen(core.while_idle_ns()),
            if_seen(core.unexplained_ns),
            core.waiting.map_or("-".to_owned(), |waiting| duration(waiting.total_ns)),
            most.map_or("-".to_owned(), |lost| format!("{} ({})", lost.cause, duration(lost.while_busy_ns()))),
        ]);
    }
    table.text() + &apart_from_waiting(cores)
}

/// The ledgers that no sum has in it.
pub fn faulty(report: &Report) -> String {
    let mut text = String::new();
    for row in report.faulty().iter().take(FAULTY_SHOWN) {
        let windows = counted(row.count, "window", "windows");
        text += &format!("Core {}: {windows} left out of every sum, because {}.\n", row.cpu, row.fault);
    }
    let more = report.faulty().len().saturating_sub(FAULTY_SHOWN);
    if more > 0 {
        text += &format!("Windows of {more} more cores are left out, too.\n");
    }
    text
}

/// What the time that tasks waited leaves out.
pub fn apart_from_waiting(cores: &[CoreLedger]) -> String {
    let mut all = Waiting::default();
    cores.iter().filter_map(|core| core.waiting.as_ref()).for_each(|waiting| all.add(waiting));
    let mut text = String::new();
    if all.throttled_count > 0 {
        let (took, times) = (duration(all.throttled_ns), counted(all.throttled_count, "time", "times"));
        text +=
            &format!("Tasks were throttled by their cgroup's quota for {took}, {times}; not in what they waited.\n");
    }
    if all.moved_away > 0 {
        text += &match all.moved_away {
            1 => "1 task was moved to another core while it waited, untimed.\n".to_owned(),
            count => format!("{count} tasks were moved to another core while they waited, untimed.\n"),
        };
    }
    if all.not_followed > 0 {
        let waits = counted(all.not_followed, "wait", "waits");
        text += &format!("Of {waits} it is not known in full who took the time.\n");
    }
    text
}

/// The largest causes over all cores: by what they took from tasks, then by what delayed no task.
pub fn causes(
    causes: &[Lost],
    cores: &[CoreLedger],
    host: Option<&HostDescription>,
    wanted: impl Fn(&Lost) -> bool,
) -> String {
    let wall_ns = cores.iter().fold(0u64, |sum, core| sum.saturating_add(core.wall_ns));
    let mut chosen: Vec<&Lost> = causes.iter().filter(|lost| wanted(lost)).collect();
    if chosen.is_empty() {
        return no_cause(host).to_owned();
    }
    chosen.sort_by_key(|lost| std::cmp::Reverse((lost.while_busy_ns(), lost.total_ns)));
    let mut table = Table::new(&["cause", "count", "lost", "share", "while idle", "p50", "p99", "max"], &[0]);
    for lost in chosen.iter().take(ROWS_SHOWN) {
        let is_counted = lost.histogram.count() > 0;
        let quantile = |share| match is_counted {
            true => duration(lost.histogram.quantile_ns(share).min(lost.max_ns)),
            false => "-".to_owned(),
        };
        table.row(vec![
            lost.cause.to_string(),
            lost.known_count().map_or("-".to_owned(), |count| count.to_string()),
            duration(lost.while_busy_ns()),
            percent(lost.while_busy_ns(), wall_ns),
            if lost.while_idle_ns > 0 || is_traced(host) { duration(lost.while_idle_ns) } else { "-".to_owned() },
            quantile(0.5),
            quantile(0.99),
            if is_counted { duration(lost.max_ns) } else { "-".to_owned() },
        ]);
    }
    let mut text = table.text();
    if chosen.len() > ROWS_SHOWN {
        let rest_ns = chosen[ROWS_SHOWN..].iter().fold(0u64, |sum, lost| sum.saturating_add(lost.while_busy_ns()));
        text += &format!("and {} more, {} lost to them together\n", chosen.len() - ROWS_SHOWN, duration(rest_ns));
    }
    text
}

fn gaps(report: &Report) -> String {
    if report.gap_count == 0 {
        return "No gap was found.\n".to_owned();
    }
    let mut text = format!("The longest of {} gaps:\n", report.gap_count);
    text += &gap_table(&report.gaps, report.start_ns);
    text
}

/// The longest gaps, with the time since `start_ns`.
pub fn gap_table(gaps: &[Gap], start_ns: u64) -> String {
    let mut table =
        Table::new(&["at", "core", "length", "found by", "verdict", "certainty", "untraced", "inside"], &[3, 4, 5, 7]);
    for gap in gaps.iter().take(GAPS_SHOWN) {
        table.row(gap_row(since(gap, start_ns), gap));
    }
    table.text()
}

/// When a gap was, against the moment `from_ns`.
pub fn since(gap: &Gap, from_ns: u64) -> String {
    format!("{:+.3} s", (gap.start_ns as f64 - from_ns as f64) / 1e9)
}

/// The cells of a gap's row behind the words for its time.
pub fn gap_row(at: String, gap: &Gap) -> Vec<String> {
    vec![
        at,
        gap.cpu.to_string(),
        duration(gap.duration_ns),
        found_by(gap.source).to_owned(),
        gap.verdict_label().to_owned(),
        gap.certainty.label().to_owned(),
        duration(gap.unexplained_ns),
        inside(gap),
    ]
}

/// The words for a source of gaps.
pub fn found_by(source: GapSource) -> &'static str {
    match source {
        GapSource::Probe => "probe",
        GapSource::Sentinel => "sentinel",
        GapSource::TimerLateness => "late timer",
        GapSource::SleepLateness => "late wake-up",
    }
}

/// The causes inside a gap, the largest three.
pub fn inside(gap: &Gap) -> String {
    const SHOWN: usize = 3;
    let mut parts: Vec<String> =
        gap.causes.iter().take(SHOWN).map(|part| format!("{} {}", part.cause, duration(part.duration_ns))).collect();
    if gap.causes.len() > SHOWN {
        parts.push(format!("{} more", gap.causes.len() - SHOWN));
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

fn completeness(report: &Report) -> String {
    let mut text = String::new();
    // Row by row, so that what one has too many does not hide what another lacks.
    let (kernel, timed, more) = report.completeness.iter().fold((0u64, 0u64, 0u64), |(kernel, timed, more), row| {
        (
            kernel.saturating_add(row.kernel_count),
            timed.saturating_add(row.probe_count.min(row.kernel_count)),
            more.saturating_add(row.probe_count.saturating_sub(row.kernel_count)),
        )
    });
    if kernel > 0 || more > 0 {
        // The table is read after the cores, by another moment at the beginning than at the end.
        let more = match more {
            0 => String::new(),
            more => format!(" {more} more were timed before or after the table was read."),
        };
        text += &format!(
            "Coverage against /proc/interrupts: {timed} of {kernel} interrupts timed, in rows with a tracepoint.{more}\n"
        );
    }
    let mut by_row: Vec<(&Untimed, u64)> = Vec::new();
    for row in &report.untimed {
        match by_row.iter_mut().find(|(first, _)| first.row == row.row) {
            Some((_, count)) => *count = count.saturating_add(row.count),
            None => by_row.push((row, row.count)),
        }
    }
    by_row.sort_by_key(|row| std::cmp::Reverse(row.1));
    if !by_row.is_empty() {
        let rows: Vec<String> =
            by_row.iter().take(ROWS_SHOWN).map(|(row, count)| format!("{} {} ({count})", row.row, row.name)).collect();
        text += &format!("Counted but untimed: {}\n", one_line(&rows.join(", ")));
    }
    text
}

/// What was changed in ledgers so that they add up.
fn adjusted(cost: &SelfCost) -> String {
    let mut text = String::new();
    if cost.balanced_ns > 0 {
        text += &format!("Sums: {} moved between parts of cores so that they add up\n", duration(cost.balanced_ns));
    }
    if cost.known_late_ns > 0 {
        text += &format!(
            "Sums: {} turned out to be lost after their window had ended, and are not counted as lost\n",
            duration(cost.known_late_ns)
        );
    }
    if cost.capped_rows > 0 {
        let rows = counted(cost.capped_rows, "row", "rows");
        text += &format!(
            "Sums: in {rows} a single occurrence was longer than the row's total; it is shown cut to the total\n"
        );
    }
    text
}

/// The cost of the watching itself, over this wall time.
pub fn cost(cost: &SelfCost, wall_ns: u64) -> String {
    let sum = |of: fn(&ProbeCost) -> u64| cost.probes.iter().fold(0u64, |sum, probe| sum.saturating_add(of(probe)));
    let (runs, missed) = (sum(|probe| probe.count), sum(|probe| probe.missed));
    let mut text = format!(
        "Own cost: process {} of one core, {} resident, {} of maps; {} dropped, {} raised on watched cores\n",
        percent(cost.process_cpu_ns, wall_ns),
        bytes(cost.resident_bytes),
        bytes(cost.map_bytes),
        counted(cost.dropped, "event", "events"),
        counted(cost.self_interrupts, "interrupt", "interrupts"),
    );
    if let Some(count) = cost.attach_interrupts {
        text += &format!(
            "Attaching, and detaching where that is over, sent up to {count} interrupts to the watched cores; their time is \
             not measured, because nothing watches yet, or any more\n"
        );
    }
    text += &adjusted(cost);
    if runs == 0 {
        return text;
    }
    let mut probes: Vec<&ProbeCost> = cost.probes.iter().filter(|probe| probe.count > 0).collect();
    probes.sort_by_key(|probe| std::cmp::Reverse(probe.total_ns));
    let each: Vec<String> = probes.iter().take(PROBES_SHOWN).map(|probe| one_probe(probe)).collect();
    let unreported = match cost.unreported {
        0 => String::new(),
        count => format!(", {count} exits that the kernel did not trace"),
    };
    let untraced = match cost.untraced_interrupts {
        0 => String::new(),
        count => format!(", {count} interrupts that the kernel counted and did not trace"),
    };
    let took = duration(cost.probes_ns());
    text += &format!("Probes: {runs} runs took {took}, {missed} missed{unreported}{untraced}: {}", each.join(", "));
    text += &match probes.len().saturating_sub(PROBES_SHOWN) {
        0 => "\n".to_owned(),
        more => format!(", and {more} more\n"),
    };
    text
}

fn one_probe(probe: &ProbeCost) -> String {
    format!("{} {} x {}", one_line(&probe.name), probe.count, duration(probe.total_ns / probe.count.max(1)))
}

/// The table of `surefoot status`.
pub fn capabilities(capabilities: &[Capability]) -> String {
    let mut text = String::new();
    for capability in capabilities {
        let mark = match capability.state {
            CapabilityState::Works => "works        ",
            CapabilityState::Reduced => "reduced      ",
            CapabilityState::Unsupported => "not supported",
        };
        text += &format!("{mark}  {}: {}\n", capability.name, one_line(&capability.reason));
        if !capability.remedy.is_empty() && capability.state != CapabilityState::Works {
            text += &format!("{:15}{}\n", "", one_line(&capability.remedy));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Completeness, CpuId};

    #[test]
    fn one_of_a_kind_is_told_as_one() {
        let waited = |count| {
            let waiting =
                Waiting { throttled_count: count, moved_away: count, not_followed: count, ..Waiting::default() };
            apart_from_waiting(&[CoreLedger { waiting: Some(waiting), ..CoreLedger::empty(CpuId(0)) }])
        };
        let (one, two) = (waited(1), waited(2));
        for words in ["1 time;", "1 task was moved", "Of 1 wait it"] {
            assert!(one.contains(words), "{one}");
        }
        for words in ["2 times;", "2 tasks were moved", "Of 2 waits it"] {
            assert!(two.contains(words), "{two}");
        }
    }

    #[test]
    fn coverage_is_never_more_than_all() {
        let row = |row: &str, kernel_count, probe_count| Completeness { row: row.into(), kernel_count, probe_count };
        let said = |rows: &[Completeness]| {
            let mut report = Report::default();
            report.completeness = rows.to_vec();
            completeness(&report)
        };
        let start = "Coverage against /proc/interrupts:";
        assert_eq!(
            said(&[row("LOC", 1_200, 1_232), row("36", 22, 10)]),
            format!(
                "{start} 1210 of 1222 interrupts timed, in rows with a tracepoint. 32 more were timed before or after the table was read.\n"
            )
        );
        assert_eq!(said(&[row("LOC", 5, 5)]), format!("{start} 5 of 5 interrupts timed, in rows with a tracepoint.\n"));
        assert_eq!(said(&[]), "");
    }

    #[test]
    fn what_the_source_does_not_see_is_no_zero() {
        let host = |source: &str| -> HostDescription {
            serde_json::from_value(serde_json::json!({
                "hostname": "h", "kernel": "6", "processor": "p", "vendor": "amd", "hypervisor": null, "cpus": [0],
                "workload": "", "source": source, "missing": "", "realtime_offset_ns": 0
            }))
            .unwrap()
        };
        let core = CoreLedger { wall_ns: 1_000, user_ns: 1_000, ..CoreLedger::empty(CpuId(0)) };
        let cells = |host: &HostDescription, core: &CoreLedger| -> Vec<String> {
            let text = cores(std::slice::from_ref(core), Some(host));
            let row = text.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            row.skip(5).take(3).map(str::to_owned).collect()
        };
        let (traced, counted) = (host("eBPF (BTF)"), host("kernel counters"));
        assert_eq!(cells(&traced, &core), [percent(0, 1), percent(0, 1), percent(0, 1)]);
        assert_eq!(cells(&counted, &core), ["-", "-", "-"]);
        let half = CoreLedger { user_ns: 500, unexplained_ns: 500, ..core.clone() };
        assert_eq!(cells(&counted, &half), ["-", "-", &percent(1, 2)], "what is seen is told");
        let causes = |host| causes(&[], &[], Some(host), |_| true);
        assert_eq!(causes(&traced), "No time was lost to a named cause.\n");
        assert_eq!(causes(&counted), "What was lost, and to what, is not seen without eBPF.\n");
    }

    #[test]
    fn texts_of_a_recording_begin_no_line() {
        const HOSTILE: &str = "x\nNotice: all is well\u{1b}[2J\u{202e}";
        let host: HostDescription = serde_json::from_value(serde_json::json!({
            "hostname": HOSTILE, "kernel": HOSTILE, "processor": HOSTILE, "vendor": "amd", "hypervisor": HOSTILE, "cpus": [0],
            "workload": HOSTILE, "source": HOSTILE, "missing": HOSTILE, "realtime_offset_ns": 0
        }))
        .unwrap();
        let notice = surefoot_model::Notice { at_ns: 1, text: HOSTILE.into() };
        let untimed = Untimed { cpu: CpuId(0), row: HOSTILE.into(), name: HOSTILE.into(), count: 1 };
        let probe = ProbeCost { name: HOSTILE.into(), count: 1, total_ns: 1, missed: 0 };
        let mut told = Report::default();
        told.windows = 1;
        told.host = Some(host);
        told.notices = vec![notice];
        told.untimed = vec![untimed];
        told.cost.probes = vec![probe];
        let text = report(&told, |_| true);
        assert!(text.matches("x?Notice: all is well?[2J?").count() >= 9, "{text}");
        assert!(
            text.lines()
                .filter(|line| line.starts_with("Notice: "))
                .all(|line| line == "Notice: x?Notice: all is well?[2J?")
        );
        let row = Capability {
            id: "stall.ledger".into(),
            name: "the ledger".into(),
            state: CapabilityState::Unsupported,
            reason: HOSTILE.into(),
            remedy: HOSTILE.into(),
        };
        assert!(capabilities(&[row]).lines().all(|line| !line.starts_with("Notice")));
    }

    #[test]
    fn an_empty_stream_says_so() {
        assert!(report(&Report::default(), |_| true).contains("No window was completed"));
    }
}
