//! The past as JSON lines: stable names, units in the names. Nanoseconds since 1970 are also there as RFC 3339 text, because they exceed 2^53 and some readers round such numbers.

use serde::Serialize;
use std::io::{self, Write};
use std::ops::Range;
use surefoot_console::output::{line, stream};
use surefoot_console::when;
use surefoot_model::{
    CauseKind, CoreLedger, CpuId, FaultySum, Finding, Gap, HostDescription, Lost, Room, Subject, Waiting,
};
use surefoot_store::history::past::{Past, Question};
use surefoot_store::history::{KeptClockChange, KeptFinding, KeptRecord};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(test, schemars(rename = "HistoryLine"))]
pub enum What<'a> {
    History {
        #[serde(flatten)]
        range: Stretch,
        host: Option<&'a HostDescription>,
        /// How long the core was watched that was watched longest.
        watched_ns: u64,
        second_count: u64,
        minute_count: u64,
        kept_seconds: Option<Stretch>,
        kept_minutes: Option<Stretch>,
        unknown_count: u64,
        findings_left_out: u64,
        records_left_out: u64,
    },
    Core {
        cpu: CpuId,
        wall_ns: u64,
        idle_ns: u64,
        user_ns: u64,
        kernel_ns: u64,
        lost: Vec<Row<'a>>,
        unexplained_ns: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        waiting: Option<Waiting>,
    },
    /// Ledgers of a core that cannot be true. They are in no sum.
    Faulty(FaultySum),
    Cause {
        #[serde(flatten)]
        row: Row<'a>,
        worst_minute: Option<Minute>,
    },
    Gap {
        start_realtime_ns: i64,
        start_realtime: String,
        #[serde(flatten)]
        gap: &'a Gap,
    },
    Notice {
        at_realtime_ns: i64,
        at_realtime: String,
        text: &'a str,
    },
    /// The wall clock was set, or the machine slept.
    ClockChange {
        /// By the clock after it.
        at_realtime_ns: i64,
        at_realtime: String,
        /// The same moment by the clock before it.
        former_realtime_ns: i64,
        former_realtime: String,
        slept_ns: u64,
        text: String,
    },
    Finding {
        #[serde(flatten)]
        finding: &'a Finding,
        since_realtime: Option<String>,
        from_realtime_ns: i64,
        from_realtime: String,
        last_seen_realtime_ns: i64,
        last_seen_realtime: String,
        until_realtime_ns: Option<i64>,
        until_realtime: Option<String>,
        /// Whether it holds. `null`: not known, the watch that would have written its end died.
        holds: Option<bool>,
    },
    Record {
        room: Room,
        kind: &'a str,
        subject: &'a Subject,
        at_realtime_ns: i64,
        at_realtime: String,
        body: &'a serde_json::Value,
    },
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stretch {
    from_realtime_ns: i64,
    from_realtime: String,
    to_realtime_ns: i64,
    to_realtime: String,
}

impl From<&Range<i64>> for Stretch {
    fn from(range: &Range<i64>) -> Self {
        Stretch {
            from_realtime_ns: range.start,
            from_realtime: when::rfc3339(range.start),
            to_realtime_ns: range.end,
            to_realtime: when::rfc3339(range.end),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "HistoryLost"))]
pub struct Row<'a> {
    kind: CauseKind,
    name: &'a str,
    /// `null` where the source knows the time alone, as of steal.
    count: Option<u64>,
    total_ns: u64,
    /// `null` where the source does not know single occurrences.
    max_ns: Option<u64>,
    while_idle_ns: u64,
}

impl<'a> From<&'a Lost> for Row<'a> {
    fn from(lost: &'a Lost) -> Self {
        let Lost { cause, total_ns, while_idle_ns, .. } = lost;
        let (count, max_ns) = (lost.known_count(), lost.known_max_ns());
        let (total_ns, while_idle_ns) = (*total_ns, *while_idle_ns);
        Row { kind: cause.kind, name: &cause.name, count, total_ns, max_ns, while_idle_ns }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Minute {
    start_realtime_ns: i64,
    start_realtime: String,
    total_ns: u64,
}

/// Writes the whole answer: a line for the range, then one per core, cause, gap, notice, change of the clock, finding and record.
pub fn write(out: &mut impl Write, past: &Past, question: &Question) -> io::Result<()> {
    stream(out, "history")?;
    let mut put = |what: What<'_>| line(out, &what);
    put(What::History {
        range: Stretch::from(&question.range),
        host: past.host.as_ref(),
        watched_ns: past.range_watched_ns,
        second_count: past.seconds,
        minute_count: past.minutes,
        kept_seconds: past.kept_seconds.as_ref().map(Stretch::from),
        kept_minutes: past.kept_minutes.as_ref().map(Stretch::from),
        unknown_count: past.unknown_count,
        findings_left_out: past.findings.left_out_count,
        records_left_out: past.records.left_out_count,
    })?;
    past.sum.cores().iter().try_for_each(|sum| put(core(sum)))?;
    past.sum.faulty().into_iter().try_for_each(|faulty| put(What::Faulty(faulty)))?;
    past.sum.causes().iter().try_for_each(|lost| put(cause(past, lost)))?;
    for kept in &past.gaps {
        let start_realtime = when::rfc3339(kept.start_ns);
        put(What::Gap { start_realtime_ns: kept.start_ns, start_realtime, gap: &kept.gap })?;
    }
    for (at_realtime_ns, text) in &past.notices {
        let at_realtime = when::rfc3339(*at_realtime_ns);
        put(What::Notice { at_realtime_ns: *at_realtime_ns, at_realtime, text })?;
    }
    past.clock_changes.iter().try_for_each(|kept| put(clock_change(kept)))?;
    past.findings.iter().try_for_each(|kept| put(finding(kept, kept.holds(past.has_writer, question.asked_ns))))?;
    past.records.iter().try_for_each(|kept| put(record(kept)))
}

fn core(sum: &CoreLedger) -> What<'_> {
    let CoreLedger { cpu, wall_ns, idle_ns, user_ns, kernel_ns, lost, unexplained_ns, waiting } = sum;
    What::Core {
        cpu: *cpu,
        wall_ns: *wall_ns,
        idle_ns: *idle_ns,
        user_ns: *user_ns,
        kernel_ns: *kernel_ns,
        lost: lost.iter().map(Row::from).collect(),
        unexplained_ns: *unexplained_ns,
        waiting: *waiting,
    }
}

fn cause<'a>(past: &Past, lost: &'a Lost) -> What<'a> {
    let worst_minute = past.worst_minute(lost).map(|worst| Minute {
        start_realtime_ns: worst.start_ns,
        start_realtime: when::rfc3339(worst.start_ns),
        total_ns: worst.total_ns,
    });
    What::Cause { row: Row::from(lost), worst_minute }
}

fn clock_change(kept: &KeptClockChange) -> What<'_> {
    let KeptClockChange { at_realtime_ns, former_realtime_ns, change } = kept;
    What::ClockChange {
        at_realtime_ns: *at_realtime_ns,
        at_realtime: when::rfc3339(*at_realtime_ns),
        former_realtime_ns: *former_realtime_ns,
        former_realtime: when::rfc3339(*former_realtime_ns),
        slept_ns: change.slept_ns,
        text: change.to_string(),
    }
}

fn finding(kept: &KeptFinding, holds: Option<bool>) -> What<'_> {
    let KeptFinding { finding, from_realtime_ns, last_seen_realtime_ns, until_realtime_ns } = kept;
    let since_ns = i64::try_from(finding.since_realtime_ns).ok().filter(|&since_ns| since_ns > 0);
    What::Finding {
        finding,
        since_realtime: since_ns.map(when::rfc3339),
        from_realtime_ns: *from_realtime_ns,
        from_realtime: when::rfc3339(*from_realtime_ns),
        last_seen_realtime_ns: *last_seen_realtime_ns,
        last_seen_realtime: when::rfc3339(*last_seen_realtime_ns),
        until_realtime_ns: *until_realtime_ns,
        until_realtime: until_realtime_ns.map(when::rfc3339),
        holds,
    }
}

fn record(kept: &KeptRecord) -> What<'_> {
    let KeptRecord { room, kind, subject, at_realtime_ns, body } = kept;
    let at_realtime = when::rfc3339(*at_realtime_ns);
    What::Record { room: *room, kind, subject, at_realtime_ns: *at_realtime_ns, at_realtime, body }
}
