//! A range of the history, summed up.

use super::{
    Answer, GAPS_MAX, GapFilter, HistoryWindow, KeptClockChange, KeptFinding, KeptGap, KeptRecord, Resolution, View,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};
use surefoot_model::{Cause, CpuId, HostDescription, Lost, Report, Room, Window};

const MINUTE_NS: i64 = 60_000_000_000;

/// The minute of the clock in which this moment lies.
fn minute_of(at_ns: i64) -> i64 {
    at_ns.div_euclid(MINUTE_NS).saturating_mul(MINUTE_NS)
}

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Question {
    /// When it was asked, nanoseconds since 1970.
    pub asked_ns: i64,
    /// Nanoseconds since 1970.
    pub range: Range<i64>,
    /// `None` for all rooms.
    pub room: Option<Room>,
    /// Empty for all cores.
    pub cpus: Vec<CpuId>,
    /// Gaps to list.
    pub gap_count: usize,
}

impl Question {
    /// Whether this room is asked for.
    pub fn asks_for(&self, room: Room) -> bool {
        self.room.is_none_or(|only| only == room)
    }
}

/// The minute of the clock in which a cause took most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorstMinute {
    /// Its start, nanoseconds since 1970.
    pub start_ns: i64,
    /// What the cause took in it.
    pub total_ns: u64,
}

/// The answer.
#[derive(Debug, Default)]
pub struct Past {
    /// The host as it was last described before the end of the range.
    pub host: Option<HostDescription>,
    /// Windows of a second that were summed up.
    pub seconds: u64,
    /// Spans of a minute that were summed up.
    pub minutes: u64,
    /// The time that they cover, each core's counted once.
    pub covered: Option<Range<i64>>,
    /// The sums by core and cause.
    pub sum: Report,
    worst: HashMap<Cause, WorstMinute>,
    /// The minute that is being read, and what each cause took in it.
    minute: (i64, BTreeMap<Cause, u64>),
    /// The rooms of which the file keeps anything at any time.
    pub known_rooms: Vec<Room>,
    /// The cores that the file says were watched.
    pub known_cpus: BTreeSet<CpuId>,
    /// The longest gaps.
    pub gaps: Vec<KeptGap>,
    /// Notices with their times, nanoseconds since 1970.
    pub notices: Vec<(i64, String)>,
    /// Changes of the wall clock.
    pub clock_changes: Answer<KeptClockChange>,
    /// Findings.
    pub findings: Answer<KeptFinding>,
    /// Whether the history had a writer: see [`View::has_writer`].
    pub has_writer: Option<bool>,
    /// What happened in rooms.
    pub records: Answer<KeptRecord>,
    /// Rows of this answer that only another release can read.
    pub unknown_count: u64,
    /// What windows of a second the file keeps at all.
    pub kept_seconds: Option<Range<i64>>,
    /// What spans of a minute it keeps.
    pub kept_minutes: Option<Range<i64>>,
    /// How long the core was watched in the range that was watched longest, whatever room is asked for.
    pub range_watched_ns: u64,
}

impl Past {
    /// Asks the history.
    ///
    /// # Errors
    /// Those of the store.
    // Made once for a person who reads them.
    #[allow(clippy::result_large_err)]
    pub fn read(view: &View, question: &Question) -> crate::Result<Past> {
        let mut past = Past {
            kept_seconds: view.kept_range(Resolution::Second)?,
            kept_minutes: view.kept_range(Resolution::Minute)?,
            findings: view.findings(question.range.clone())?,
            has_writer: view.has_writer(),
            records: view.records(question.range.clone(), question.room)?,
            ..Past::default()
        };
        past.findings.rows.retain(|kept| question.asks_for(kept.finding.room));
        let hosts = view.hosts()?;
        past.unknown_count += hosts.unknown_count + past.findings.unknown_count + past.records.unknown_count;
        past.known_rooms = view.rooms()?;
        past.known_cpus = hosts.iter().flat_map(|(_, host)| host.cpus.iter().copied()).collect();
        past.host = hosts.into_iter().rev().find(|host| host.0 < question.range.end).map(|host| host.1);
        // What was found elsewhere is no answer to a question about cores that this history does not know.
        let knows_one = question.cpus.iter().any(|cpu| past.known_cpus.contains(cpu));
        if !question.cpus.is_empty() && !past.known_cpus.is_empty() && !knows_one {
            (past.findings, past.records) = (Answer::default(), Answer::default());
            return Ok(past);
        }
        if question.asks_for(Room::Watch) {
            past.notices = view.notices(question.range.clone())?;
            past.clock_changes = view.clock_changes(question.range.clone())?;
        }
        if question.asks_for(Room::Stall) {
            past.read_windows(view, question)?;
            past.read_gaps(view, question)?;
        }
        past.range_watched_ns = match question.asks_for(Room::Stall) {
            true => past.watched_ns(),
            false => {
                // What another room has of a time in which nothing was watched is not nothing.
                let mut windows = Past {
                    kept_seconds: past.kept_seconds.clone(),
                    kept_minutes: past.kept_minutes.clone(),
                    ..Past::default()
                };
                windows.read_windows(view, question)?;
                windows.watched_ns()
            }
        };
        Ok(past)
    }

    /// By the second where all that is kept of the range is kept so, by the minute elsewhere.
    #[allow(clippy::result_large_err)]
    fn read_windows(&mut self, view: &View, question: &Question) -> crate::Result<()> {
        let Range { start, end } = question.range;
        let is_whole_in_seconds = match (&self.kept_seconds, &self.kept_minutes) {
            (Some(seconds), Some(minutes)) => seconds.start <= start || minute_of(seconds.start) <= minutes.start,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let take = |window: HistoryWindow| {
            self.add(window, &question.cpus);
            ControlFlow::Continue(())
        };
        self.unknown_count += match is_whole_in_seconds {
            true => view.for_each_window(start..end, Resolution::Second, take)?,
            // A minute counts by its beginning: the one in which the range begins belongs to it.
            false => view.for_each_minute(minute_of(start)..end, take)?,
        };
        self.end_minute();
        Ok(())
    }

    #[allow(clippy::result_large_err)]
    fn read_gaps(&mut self, view: &View, question: &Question) -> crate::Result<()> {
        // The store filters by one core; of several, the longest are picked here.
        let filter = GapFilter {
            range: Some(question.range.clone()),
            limit: if question.cpus.is_empty() { question.gap_count } else { GAPS_MAX },
            ..GapFilter::default()
        };
        let gaps = view.gaps(&filter)?;
        self.unknown_count += gaps.unknown_count;
        let is_asked = |cpu: CpuId| question.cpus.is_empty() || question.cpus.contains(&cpu);
        self.gaps = gaps.into_iter().filter(|kept| is_asked(kept.gap.cpu)).take(question.gap_count).collect();
        Ok(())
    }

    fn add(&mut self, window: HistoryWindow, cpus: &[CpuId]) {
        let HistoryWindow { start_ns, end_ns, mut cores, mut faulty } = window;
        cores.retain(|core| cpus.is_empty() || cpus.contains(&core.cpu));
        faulty.retain(|core| cpus.is_empty() || cpus.contains(&core.cpu));
        if cores.is_empty() && faulty.is_empty() {
            return;
        }
        let counted = if end_ns.saturating_sub(start_ns) == MINUTE_NS { &mut self.minutes } else { &mut self.seconds };
        *counted += 1;
        let minute_ns = minute_of(start_ns);
        if minute_ns != self.minute.0 {
            self.end_minute();
            self.minute.0 = minute_ns;
        }
        for lost in cores.iter().flat_map(|core| &core.lost) {
            let total_ns = self.minute.1.entry(lost.cause.clone()).or_default();
            *total_ns = total_ns.saturating_add(lost.total_ns);
        }
        let covered = self.covered.get_or_insert(start_ns..end_ns);
        covered.end = covered.end.max(end_ns);
        // The report counts in monotonic time, which the history has none of; only its sums are asked for.
        self.sum.add_window(&Window { cores, ..Window::default() });
        faulty.into_iter().for_each(|faulty| self.sum.add_faulty(faulty));
    }

    fn end_minute(&mut self) {
        let (start_ns, causes) = std::mem::take(&mut self.minute);
        for (cause, total_ns) in causes {
            let worst = self.worst.entry(cause).or_default();
            if total_ns > worst.total_ns {
                *worst = WorstMinute { start_ns, total_ns };
            }
        }
    }

    /// The minute in which this cause took most.
    pub fn worst_minute(&self, lost: &Lost) -> Option<WorstMinute> {
        self.worst.get(&lost.cause).copied()
    }

    /// How long the core was watched that was watched longest.
    pub fn watched_ns(&self) -> u64 {
        self.sum.cores().iter().map(|core| core.wall_ns).max().unwrap_or(0)
    }

    /// Whether there is nothing to show at all.
    pub fn is_empty(&self) -> bool {
        self.sum.windows == 0
            && self.gaps.is_empty()
            && self.notices.is_empty()
            && self.clock_changes.is_empty()
            && self.findings.is_empty()
            && self.records.is_empty()
    }
}
