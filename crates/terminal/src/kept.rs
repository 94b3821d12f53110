//! What a watch has seen lately, and one moment of it as the screen shows it.

use std::collections::VecDeque;
use std::sync::Arc;
use surefoot_console::lost_time as text;
use surefoot_model::{
    CoreLedger, Event, Finding, Gap, GapCorrection, Headline, HostDescription, Lost, Report, Room, SelfCost, Severity,
    StreamClock, WhoReport, Window, one_line,
};

use crate::past::Seen;

/// Windows that the live screen sums up.
const LIVE_WINDOWS: usize = 60;
/// Windows that are kept for stepping back, and memory for them.
const WINDOWS_MAX: usize = 3_600;
const BYTES_MAX: usize = 24 << 20;
/// Gaps of the windows that are kept.
const GAPS_MAX: usize = 4_096;
/// Notices that are kept.
const NOTICES_MAX: usize = 100;

/// A room, and why it looks at nothing if it does not look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomState {
    /// The room.
    pub room: Room,
    /// Why it looks at nothing, and what to do.
    pub why_not_watched: Option<String>,
}

/// One window with what the judge said at its end.
#[derive(Debug)]
struct Held {
    window: Window,
    bytes: usize,
    judged: Arc<Judged>,
}

/// What the judge said.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The headline.
    pub headline: Headline,
    /// All findings, the most urgent first.
    pub findings: Vec<Finding>,
    /// Whether the judge looked; otherwise that there is no finding says nothing.
    pub is_known: bool,
}

impl Default for Judged {
    fn default() -> Self {
        Judged { headline: Headline::of(&[]), findings: Vec::new(), is_known: false }
    }
}

impl Judged {
    /// Of a window that came before the judge had looked at any.
    fn unknown() -> Self {
        let sentence = "What was found at this moment is not known here.";
        Judged { headline: Headline::new(Severity::Notice, sentence), ..Judged::default() }
    }
}

/// What a watch has seen lately.
#[derive(Debug, Default)]
pub struct Kept {
    address: Option<String>,
    banner: Option<String>,
    host: Option<HostDescription>,
    clock: StreamClock,
    windows: VecDeque<Held>,
    bytes: usize,
    /// The number of the oldest window that is kept; the first of all is 0.
    first: u64,
    gaps: VecDeque<Gap>,
    notices: VecDeque<String>,
    who: Option<Arc<WhoReport>>,
    judged: Arc<Judged>,
    rooms: Arc<[RoomState]>,
}

impl Kept {
    /// Nothing yet; where the page is, and whose data these will be where they are not this host's.
    pub fn new(address: Option<String>, banner: Option<String>) -> Self {
        Kept { address, banner, ..Kept::default() }
    }

    /// Takes an event in.
    pub fn add(&mut self, event: &Event) {
        self.clock.take(event);
        match event {
            Event::Host(host) => self.host = Some(host.clone()),
            Event::Window(window) => self.add_window(window.clone(), event.held_bytes()),
            Event::Gap(gap) => {
                if self.gaps.len() == GAPS_MAX {
                    self.gaps.pop_front();
                }
                self.gaps.push_back(gap.clone());
            }
            Event::GapCorrection(GapCorrection { gap, .. }) => {
                if let Some(kept) = self.gaps.iter_mut().rfind(|kept| kept.is_same(gap)) {
                    kept.clone_from(gap);
                }
            }
            Event::Clock(change) => self.notice(&change.to_string()),
            Event::Notice(notice) => self.notice(&notice.text),
            Event::Who(who) => self.who = Some(Arc::new(WhoReport { timeline: None, ..WhoReport::clone(who) })),
            // The rooms' own: the screen shows their findings.
            _ => {}
        }
    }

    fn add_window(&mut self, window: Window, bytes: usize) {
        self.bytes += bytes;
        let judged = if self.judged.is_known { Arc::clone(&self.judged) } else { Arc::new(Judged::unknown()) };
        self.windows.push_back(Held { window, bytes, judged });
        while self.windows.len() > LIVE_WINDOWS && (self.windows.len() > WINDOWS_MAX || self.bytes > BYTES_MAX) {
            if let Some(gone) = self.windows.pop_front() {
                self.bytes -= gone.bytes;
                self.first += 1;
            }
        }
        let oldest_ns = self.windows.front().map_or(0, |oldest| oldest.window.start_ns);
        while self.gaps.front().is_some_and(|gap| gap.start_ns < oldest_ns) {
            self.gaps.pop_front();
        }
    }

    /// Takes a word for the people in.
    pub fn notice(&mut self, text: &str) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(one_line(text.trim_end()));
    }

    /// Takes in what the judge says after the newest window.
    pub fn judge(&mut self, headline: Headline, findings: Vec<Finding>, rooms: Vec<RoomState>) {
        let judged = Judged { headline, findings, is_known: true };
        if *self.judged != judged {
            self.judged = Arc::new(judged);
        }
        if self.rooms[..] != rooms[..] {
            self.rooms = rooms.into();
        }
        if let Some(newest) = self.windows.back_mut() {
            newest.judged = Arc::clone(&self.judged);
        }
    }

    /// How bad it is now.
    pub fn severity(&self) -> Severity {
        self.judged.headline.severity
    }

    /// The numbers of the windows that are kept.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.windows.len() as u64
    }

    /// The start and the end of a window that is kept, nanoseconds since 1970.
    pub fn time_of(&self, number: u64) -> Option<(i64, i64)> {
        let kept = &self.windows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.window;
        let at = |ns| i64::try_from(self.clock.realtime_ns(ns)).unwrap_or(i64::MAX);
        Some((at(kept.start_ns), at(kept.end_ns)))
    }

    /// The window in which a time lies, or the last one before it; `None` where that is older than what is kept.
    pub fn number_at(&self, realtime_ns: i64) -> Option<u64> {
        let mut numbers = self.numbers();
        numbers.rfind(|&number| self.time_of(number).is_some_and(|(start_ns, _)| start_ns <= realtime_ns))
    }

    /// The last minute as it is now.
    pub fn live(&self) -> Shown {
        let from = self.windows.len().saturating_sub(LIVE_WINDOWS);
        let mut shown = self.of_windows(self.windows.range(from..).map(|kept| &kept.window));
        shown.judged = Arc::clone(&self.judged);
        shown
    }

    /// One window of the past.
    pub fn at(&self, number: u64) -> Option<Shown> {
        let kept = self.windows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        let mut shown = self.of_windows([&kept.window]);
        shown.judged = Arc::clone(&kept.judged);
        Some(shown)
    }

    /// A moment of the history.
    pub fn of_history(&self, seen: Seen) -> Shown {
        let mut sum = Report::default();
        let length_ns = u64::try_from(seen.end_realtime_ns.saturating_sub(seen.start_realtime_ns)).unwrap_or(0);
        sum.add_window(&Window { end_ns: length_ns, cores: seen.cores, ..Window::default() });
        seen.faulty.iter().for_each(|&faulty| sum.add_faulty(faulty));
        let start_ns = seen.gaps.iter().map(|gap| gap.start_ns).min().unwrap_or(0);
        let mut shown = self.shown(&sum, seen.gaps);
        shown.gaps_from_ns = start_ns;
        shown.from_realtime_ns = seen.start_realtime_ns;
        shown.until_realtime_ns = seen.end_realtime_ns;
        let headline = match seen.findings.is_empty() {
            // What is well is not kept.
            true => Headline::new(Severity::Ok, "No finding was kept of this moment."),
            false => Headline::of(&seen.findings),
        };
        shown.judged = Arc::new(Judged { headline, findings: seen.findings, is_known: true });
        shown.is_of_history = true;
        shown
    }

    fn of_windows<'a>(&self, windows: impl IntoIterator<Item = &'a Window>) -> Shown {
        let mut sum = Report::default();
        windows.into_iter().for_each(|window| sum.add_window(window));
        let range = sum.start_ns..=sum.end_ns;
        let mut gaps: Vec<Gap> = self.gaps.iter().filter(|gap| range.contains(&gap.start_ns)).cloned().collect();
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.duration_ns));
        let mut shown = self.shown(&sum, gaps);
        shown.gaps_from_ns = sum.end_ns;
        let at = |ns| i64::try_from(self.clock.realtime_ns(ns)).unwrap_or(i64::MAX);
        (shown.from_realtime_ns, shown.until_realtime_ns) = (at(sum.start_ns), at(sum.end_ns));
        shown
    }

    fn shown(&self, sum: &Report, gaps: Vec<Gap>) -> Shown {
        Shown {
            address: self.address.clone(),
            banner: self.banner.clone(),
            host: self.host.clone(),
            judged: Arc::default(),
            rooms: Arc::clone(&self.rooms),
            windows: sum.windows,
            duration_ns: sum.duration_ns(),
            from_realtime_ns: 0,
            until_realtime_ns: 0,
            cores: sum.cores(),
            causes: sum.causes(),
            faulty: text::faulty(sum),
            cost: sum.cost.clone(),
            gaps,
            gaps_from_ns: 0,
            who: self.who.clone(),
            notices: self.notices.iter().cloned().collect(),
            is_of_history: false,
        }
    }
}

/// One moment as the screen shows it.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// Where the page is.
    pub address: Option<String>,
    /// Whose data these are, where they are not this host's.
    pub banner: Option<String>,
    /// The host.
    pub host: Option<HostDescription>,
    /// What the judge said then.
    pub judged: Arc<Judged>,
    /// The rooms as they are now.
    pub rooms: Arc<[RoomState]>,
    /// How many windows it sums up.
    pub windows: u64,
    /// How long they are.
    pub duration_ns: u64,
    /// When they begin, nanoseconds since 1970.
    pub from_realtime_ns: i64,
    /// When they end, nanoseconds since 1970.
    pub until_realtime_ns: i64,
    /// The ledger of each core, ascending.
    pub cores: Vec<CoreLedger>,
    /// The causes over all cores.
    pub causes: Vec<Lost>,
    /// The ledgers that no sum has in it, as text.
    pub faulty: String,
    /// What watching cost.
    pub cost: SelfCost,
    /// The gaps, longest first.
    pub gaps: Vec<Gap>,
    /// The moment that their times count from, `CLOCK_MONOTONIC`.
    pub gaps_from_ns: u64,
    /// Who interrupted the cores since the watch began.
    pub who: Option<Arc<WhoReport>>,
    /// Notices, oldest first.
    pub notices: Vec<String>,
    /// Whether it comes from the history, which keeps no histograms, raisers and cost.
    pub is_of_history: bool,
}
