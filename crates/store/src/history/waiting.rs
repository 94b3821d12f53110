//! What was recorded and is not committed yet.

use super::findings::FindingRow;
use super::realtime_ns;
use super::records::Record;
use super::sums::CoreSum;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use surefoot_model::{
    Cause, ClockChange, CpuId, FaultyCore, FaultySum, Gap, HostDescription, LostSum, Room, Subject, Window,
};

/// How long a span of the finest resolution lasts.
pub(super) const SECOND_NS: i64 = 1_000_000_000;

/// Days of 86,400 s since 1970, as UTC counts them.
const DAY_NS: i64 = 86_400 * SECOND_NS;

/// A longer notice is cut: it is one sentence for people.
const NOTICE_BYTES_MAX: usize = 4 << 10;

/// A gap with more evidence than this is a fault of its source.
const GAP_BYTES_MAX: usize = 256 << 10;

/// What was given up, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Windows.
    pub windows: u64,
    /// Gaps.
    pub gaps: u64,
    /// Notices.
    pub notices: u64,
    /// Descriptions of the host.
    pub hosts: u64,
    /// Changes of findings, and findings beyond what a board holds.
    pub findings: u64,
    /// Records.
    pub records: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.windows + self.gaps + self.notices + self.hosts + self.findings + self.records
    }

    pub(super) fn add(&mut self, more: &Dropped) {
        self.windows += more.windows;
        self.gaps += more.gaps;
        self.notices += more.notices;
        self.hosts += more.hosts;
        self.findings += more.findings;
        self.records += more.records;
    }

    pub(super) fn since(&self, earlier: &Dropped) -> Dropped {
        Dropped {
            windows: self.windows - earlier.windows,
            gaps: self.gaps - earlier.gaps,
            notices: self.notices - earlier.notices,
            hosts: self.hosts - earlier.hosts,
            findings: self.findings - earlier.findings,
            records: self.records - earlier.records,
        }
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dropped { windows, gaps, notices, hosts, findings, records } = *self;
        let kinds = [
            (windows, "windows"),
            (gaps, "gaps"),
            (notices, "notices"),
            (hosts, "hosts"),
            (findings, "findings"),
            (records, "records"),
        ];
        let some: Vec<String> =
            kinds.iter().filter(|kind| kind.0 > 0).map(|(count, name)| format!("{count} {name}")).collect();
        if some.is_empty() { f.write_str("nothing") } else { f.write_str(&some.join(", ")) }
    }
}

/// One window, or several short ones in a row. Times are realtime.
#[derive(Debug)]
pub(super) struct WaitingSpan {
    pub start_ns: i64,
    pub end_ns: i64,
    pub windows: u64,
    pub cores: BTreeMap<CpuId, CoreSum<Cause>>,
    /// Cores whose ledgers could not be true.
    pub faulty: BTreeMap<CpuId, FaultySum>,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct WaitingGap {
    pub start_ns: i64,
    pub cpu: u32,
    pub duration_ns: u64,
    pub verdict: String,
    pub description: String,
}

#[derive(Debug)]
pub(super) struct WaitingHost {
    pub hostname: String,
    pub description: String,
}

/// A row of `record`. Its key tells whether it is there already.
#[derive(Debug)]
pub(super) struct WaitingRecord {
    pub room: Room,
    pub kind: String,
    pub subject: Subject,
    pub at_ns: i64,
    pub dedupe: String,
    pub body: String,
}

/// The gaps of one day by length; the number tells gaps of one length apart.
pub(super) type GapsByLength = BTreeMap<(u64, u64), WaitingGap>;

/// A bounded buffer of records.
#[derive(Debug)]
pub(super) struct Waiting {
    pub spans: VecDeque<WaitingSpan>,
    pub gaps: BTreeMap<i64, GapsByLength>,
    pub notices: VecDeque<(i64, String)>,
    pub hosts: VecDeque<(i64, WaitingHost)>,
    pub records: VecDeque<WaitingRecord>,
    pub clock_changes: VecDeque<ClockChange>,
    /// Gaps of which another verdict is to be kept than was written.
    pub corrections: VecDeque<WaitingGap>,
    /// Rows of findings by their number, as they are to be.
    pub findings: BTreeMap<i64, FindingRow>,
    /// When the findings that hold were last seen, where the file is to be told.
    pub seen_ns: Option<i64>,
    /// Whether the file may hold findings as open that are not.
    pub has_strays: bool,
    /// The last host, until an event with a time follows: its own has none.
    host_to_come: Option<WaitingHost>,
    /// Given up since the history was opened.
    pub dropped: Dropped,
    /// The part of `dropped` that a notice in the history tells of.
    pub dropped_noted: Dropped,
    /// The part of `dropped` that an error has told of.
    pub dropped_told: Dropped,
    /// The day whose gaps are at their limit in the database, and the shortest that is kept there.
    pub full_day: Option<(i64, u64)>,
    /// The newest time seen, for notices of the history's own.
    pub newest_ns: i64,
    bytes: usize,
    bytes_max: usize,
    gaps_per_day_max: usize,
    next_number: u64,
}

impl Waiting {
    pub(super) fn set_limits(&mut self, bytes_max: usize, gaps_per_day_max: usize) {
        // The day may have room for more gaps now.
        (self.bytes_max, self.gaps_per_day_max, self.full_day) = (bytes_max, gaps_per_day_max, None);
    }

    pub(super) fn new(bytes_max: usize, gaps_per_day_max: usize) -> Waiting {
        Waiting {
            spans: VecDeque::new(),
            gaps: BTreeMap::new(),
            notices: VecDeque::new(),
            hosts: VecDeque::new(),
            records: VecDeque::new(),
            clock_changes: VecDeque::new(),
            corrections: VecDeque::new(),
            findings: BTreeMap::new(),
            seen_ns: None,
            has_strays: true,
            host_to_come: None,
            dropped: Dropped::default(),
            dropped_noted: Dropped::default(),
            dropped_told: Dropped::default(),
            full_day: None,
            newest_ns: 0,
            bytes: 0,
            bytes_max,
            gaps_per_day_max,
            next_number: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        let gaps: usize = self.gaps.values().map(BTreeMap::len).sum();
        let told = self.notices.len() + self.records.len() + self.clock_changes.len() + self.corrections.len();
        self.spans.len() + gaps + told + self.hosts.len() + self.findings.len()
    }

    /// What waits, as it counts where it is given up.
    pub(super) fn all(&self) -> Dropped {
        let count = |length: usize| length as u64;
        Dropped {
            windows: self.spans.iter().map(|span| span.windows).sum(),
            gaps: count(self.gaps.values().map(BTreeMap::len).sum::<usize>() + self.corrections.len()),
            notices: count(self.notices.len()),
            hosts: count(self.hosts.len()),
            findings: count(self.findings.len()),
            records: count(self.records.len() + self.clock_changes.len()),
        }
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0 && self.seen_ns.is_none()
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.bytes > self.bytes_max / 2
    }

    pub(super) fn clear(&mut self) {
        self.spans.clear();
        self.gaps.clear();
        self.notices.clear();
        self.hosts.clear();
        self.records.clear();
        self.clock_changes.clear();
        self.corrections.clear();
        self.findings.clear();
        self.seen_ns = None;
        self.has_strays = false;
        self.bytes = self.host_to_come.as_ref().map_or(0, WaitingHost::bytes);
    }

    pub(super) fn add_window(&mut self, window: &Window, offset_ns: i64) {
        let start_ns = realtime_ns(window.start_ns, offset_ns);
        let end_ns = realtime_ns(window.end_ns, offset_ns).max(start_ns);
        self.advance(start_ns, end_ns);
        // The middle decides, so that windows of about a second stay apart however their edges jitter.
        let middle_ns = start_ns.midpoint(end_ns);
        let joins = self
            .spans
            .back()
            .is_some_and(|span| start_ns >= span.start_ns && middle_ns < span.start_ns.saturating_add(SECOND_NS));
        if !joins {
            let (cores, faulty) = (BTreeMap::new(), BTreeMap::new());
            self.spans.push_back(WaitingSpan { start_ns, end_ns, windows: 0, cores, faulty, bytes: 0 });
        }
        let Some(span) = self.spans.back_mut() else { return };
        span.end_ns = span.end_ns.max(end_ns);
        span.windows += 1;
        for core in &window.cores {
            let sum = span.cores.entry(core.cpu).or_insert_with(|| CoreSum::empty(core.cpu));
            sum.add(core, |_, lost| (lost.cause.clone(), LostSum::of(lost)));
        }
        for &FaultyCore { cpu, fault } in &window.faulty {
            let one = FaultySum { cpu, count: 1, fault };
            span.faulty.entry(cpu).and_modify(|sum| sum.add(&one)).or_insert(one);
        }
        let bytes = bytes_of(span);
        self.bytes += bytes - span.bytes.min(bytes);
        span.bytes = bytes;
        self.shed();
    }

    /// Returns how many gaps lost their place to longer ones.
    pub(super) fn add_gap(&mut self, gap: &Gap, offset_ns: i64) -> u64 {
        let start_ns = realtime_ns(gap.start_ns, offset_ns);
        self.advance(start_ns, start_ns);
        let day = start_ns.div_euclid(DAY_NS);
        if self.full_day.is_some_and(|(full_day, shortest_ns)| day == full_day && gap.duration_ns <= shortest_ns) {
            return 1;
        }
        let description = serde_json::to_string(gap).unwrap_or_default();
        if description.is_empty() || description.len() > GAP_BYTES_MAX {
            self.dropped.gaps += 1;
            return 0;
        }
        let waiting = WaitingGap {
            start_ns,
            cpu: gap.cpu.0,
            duration_ns: gap.duration_ns,
            verdict: word_of(&gap.verdict),
            description,
        };
        self.bytes += waiting.bytes();
        let number = self.next_number;
        self.next_number += 1;
        let of_day = self.gaps.entry(day).or_default();
        of_day.insert((gap.duration_ns, number), waiting);
        let mut ousted = 0;
        if of_day.len() > self.gaps_per_day_max
            && let Some((_, shortest)) = of_day.pop_first()
        {
            self.bytes -= shortest.bytes();
            ousted = 1;
        }
        self.shed();
        ousted
    }

    /// Another verdict of a gap that was told of before: where it waits, or where it is written. It counts nothing.
    pub(super) fn correct_gap(&mut self, gap: &Gap, offset_ns: i64) {
        let start_ns = realtime_ns(gap.start_ns, offset_ns);
        let description = serde_json::to_string(gap).unwrap_or_default();
        if description.is_empty() || description.len() > GAP_BYTES_MAX {
            self.dropped.gaps += 1;
            return;
        }
        let (cpu, duration_ns, verdict) = (gap.cpu.0, gap.duration_ns, word_of(&gap.verdict));
        let corrected = WaitingGap { start_ns, cpu, duration_ns, verdict, description };
        let of_day = self.gaps.get_mut(&start_ns.div_euclid(DAY_NS));
        let same = of_day.and_then(|of_day| {
            let of_length = of_day.range_mut((duration_ns, 0)..=(duration_ns, u64::MAX));
            of_length.map(|(_, known)| known).find(|known| known.is_same(&corrected))
        });
        self.bytes += corrected.bytes();
        match same {
            Some(same) => self.bytes -= std::mem::replace(same, corrected).bytes(),
            None => self.corrections.push_back(corrected),
        }
        self.shed();
    }

    pub(super) fn add_clock_change(&mut self, change: &ClockChange) {
        self.bytes += size_of::<ClockChange>();
        self.clock_changes.push_back(*change);
        self.shed();
    }

    pub(super) fn add_notice(&mut self, at_ns: i64, text: &str) {
        self.advance(at_ns, at_ns);
        let text = cut(text).to_owned();
        self.bytes += notice_bytes(&text);
        self.notices.push_back((at_ns, text));
        self.shed();
    }

    /// A record that a limit keeps out is counted.
    pub(super) fn add_record(&mut self, record: Record, body_bytes_max: usize) {
        match record.waiting(body_bytes_max) {
            Some(waiting) => {
                self.bytes += waiting.bytes();
                self.records.push_back(waiting);
                self.shed();
            }
            None => self.dropped.records += 1,
        }
    }

    /// The row of this number is to be so, whatever it was to be before.
    pub(super) fn add_finding(&mut self, id: i64, row: FindingRow) {
        self.bytes += row.bytes();
        if let Some(before) = self.findings.insert(id, row) {
            self.bytes -= before.bytes();
        }
        self.shed();
    }

    pub(super) fn add_host(&mut self, host: &HostDescription) {
        let description = serde_json::to_string(host).unwrap_or_default();
        let waiting = WaitingHost { hostname: host.hostname.clone(), description };
        self.bytes += waiting.bytes();
        if let Some(unused) = self.host_to_come.replace(waiting) {
            self.bytes -= unused.bytes();
        }
    }

    /// The time of a new event, which is also when the host before it began to be watched.
    fn advance(&mut self, at_ns: i64, newest_ns: i64) {
        self.newest_ns = newest_ns;
        if let Some(host) = self.host_to_come.take() {
            self.hosts.push_back((at_ns, host));
        }
    }

    /// Gives up the oldest until the rest fits: windows first, because they are most of it and the others say more per
    /// byte; then records, which jobs of any user can make many of.
    fn shed(&mut self) {
        while self.bytes > self.bytes_max {
            if let Some(span) = self.spans.pop_front() {
                self.bytes -= span.bytes;
                self.dropped.windows += span.windows;
            } else if let Some(record) = self.records.pop_front() {
                self.bytes -= record.bytes();
                self.dropped.records += 1;
            } else if let Some(correction) = self.corrections.pop_front() {
                self.bytes -= correction.bytes();
                self.dropped.gaps += 1;
            } else if self.clock_changes.pop_front().is_some() {
                self.bytes -= size_of::<ClockChange>();
                self.dropped.records += 1;
            } else if let Some((_, text)) = self.notices.pop_front() {
                self.bytes -= notice_bytes(&text);
                self.dropped.notices += 1;
            } else if let Some(mut of_day) = self.gaps.first_entry() {
                if let Some((_, gap)) = of_day.get_mut().pop_first() {
                    self.bytes -= gap.bytes();
                    self.dropped.gaps += 1;
                }
                if of_day.get().is_empty() {
                    of_day.remove();
                }
            } else if let Some((_, row)) = self.findings.pop_first() {
                self.bytes -= row.bytes();
                self.dropped.findings += 1;
                self.has_strays = true;
            } else if let Some((_, host)) = self.hosts.pop_front() {
                self.bytes -= host.bytes();
                self.dropped.hosts += 1;
            } else {
                // Only the host to come is left, and it is one.
                return;
            }
        }
    }
}

impl WaitingGap {
    /// Whether both are the same stretch of a core; the source of a gap is in its description.
    fn is_same(&self, other: &WaitingGap) -> bool {
        (self.start_ns, self.cpu, self.duration_ns) == (other.start_ns, other.cpu, other.duration_ns)
    }

    fn bytes(&self) -> usize {
        size_of::<WaitingGap>() + self.description.len() + self.verdict.len()
    }
}

impl WaitingRecord {
    fn bytes(&self) -> usize {
        size_of::<WaitingRecord>() + self.kind.len() + self.subject.name.len() + self.dedupe.len() + self.body.len()
    }
}

impl WaitingHost {
    fn bytes(&self) -> usize {
        size_of::<WaitingHost>() + self.description.len() + self.hostname.len()
    }
}

fn notice_bytes(text: &str) -> usize {
    size_of::<(i64, String)>() + text.len()
}

/// What a span takes in memory, near enough to bound it.
fn bytes_of(span: &WaitingSpan) -> usize {
    let lost: usize = span
        .cores
        .values()
        .flat_map(|core| core.lost.keys())
        .map(|cause| size_of::<(Cause, LostSum)>() + cause.name.len())
        .sum();
    let faulty = span.faulty.len() * size_of::<(CpuId, FaultySum)>();
    size_of::<WaitingSpan>() + span.cores.len() * size_of::<(CpuId, CoreSum<Cause>)>() + lost + faulty
}

/// A sentence for people, cut where it is too long to be one.
pub(super) fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(NOTICE_BYTES_MAX)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

/// The word of a plain enum, as it stands in JSON.
pub(super) fn word_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Certainty, CoreLedger, GapSource, SelfCost, Verdict};

    fn window(start_ns: u64, end_ns: u64) -> Window {
        let core = CoreLedger {
            cpu: CpuId(0),
            wall_ns: end_ns - start_ns,
            idle_ns: end_ns - start_ns,
            user_ns: 0,
            kernel_ns: 0,
            lost: vec![],
            unexplained_ns: 0,
            waiting: None,
        };
        Window {
            start_ns,
            end_ns,
            cores: vec![core],
            faulty: Vec::new(),
            untimed: vec![],
            completeness: vec![],
            cost: SelfCost::default(),
        }
    }

    fn gap(duration_ns: u64) -> Gap {
        Gap {
            cpu: CpuId(0),
            source: GapSource::Probe,
            start_ns: 0,
            duration_ns,
            causes: vec![],
            unexplained_ns: duration_ns,
            verdict: Verdict::Undetermined,
            certainty: Certainty::Probable,
            evidence: vec![],
        }
    }

    #[test]
    fn windows_of_a_second_stay_apart_and_shorter_ones_join() {
        let mut waiting = Waiting::new(1 << 20, 10);
        let second = SECOND_NS as u64;
        for start_ns in [0, second - 30_000_000, 2 * second + 20_000_000] {
            waiting.add_window(&window(start_ns, start_ns + second), 0);
        }
        assert_eq!(waiting.spans.len(), 3);
        waiting.clear();
        for tenth in 0..30 {
            waiting.add_window(&window(tenth * second / 10, (tenth + 1) * second / 10), 0);
        }
        assert_eq!(waiting.spans.iter().map(|span| span.windows).collect::<Vec<_>>(), [10, 10, 10]);
        assert!(waiting.spans.iter().all(|span| span.cores[&CpuId(0)].times.wall_ns == second));
    }

    #[test]
    fn memory_is_bounded_and_what_goes_is_counted() {
        let mut waiting = Waiting::new(20_000, 1_000_000);
        for at in 0..1_000 {
            waiting.add_window(&window(at * 2_000_000_000, at * 2_000_000_000 + 1_000_000_000), 0);
            waiting.add_gap(&gap(at), 0);
            waiting.add_notice(0, "a notice");
            assert!(waiting.bytes <= 20_000);
        }
        let held = Dropped {
            windows: waiting.spans.len() as u64,
            gaps: waiting.gaps.values().map(|of_day| of_day.len() as u64).sum(),
            notices: waiting.notices.len() as u64,
            ..Dropped::default()
        };
        assert_eq!(waiting.dropped.windows + held.windows, 1_000);
        assert_eq!(waiting.dropped.gaps + held.gaps, 1_000);
        assert_eq!(waiting.dropped.notices + held.notices, 1_000);
        assert!(!waiting.is_empty());
        waiting.clear();
        assert_eq!(waiting.bytes, 0);
    }

    #[test]
    fn a_storm_of_gaps_leaves_the_longest() {
        let mut waiting = Waiting::new(1 << 20, 5);
        let ousted: u64 = (0..100).map(|at| waiting.add_gap(&gap(at * 37 % 100), 0)).sum();
        assert_eq!(ousted, 95);
        assert_eq!(waiting.gaps[&0].keys().map(|key| key.0).collect::<Vec<_>>(), [95, 96, 97, 98, 99]);
    }

    #[test]
    fn a_long_notice_is_cut_between_characters() {
        let mut waiting = Waiting::new(1 << 20, 5);
        waiting.add_notice(0, &"é".repeat(5_000));
        assert_eq!(waiting.notices[0].1.len(), NOTICE_BYTES_MAX);
    }
}
