use super::public;
use super::totals::Totals;
use crate::http::access::Viewer;
use crate::keep::drops::{self, Drops};
use crate::keep::ring::Ring;
use crate::keep::shelf::Shelf;
use crate::rooms::Taken;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_model::{Event, Gap, GapCorrection, SelfCost, WhoReport, Window};

/// Memory for the kept windows, whatever their number: 16 MiB.
const WINDOWS_BYTES_MAX: usize = 16 << 20;
/// Memory for the kept gaps: 4 MiB.
const GAPS_BYTES_MAX: usize = 4 << 20;
/// The stretch of data that the findings speak of.
const FINDINGS_SPAN_NS: u64 = 60_000_000_000;

/// What is kept of lost time.
pub(super) struct State {
    windows: Ring,
    gaps: Shelf,
    /// The newest report of who interrupted the watched cores.
    who: Option<Arc<Event>>,
    totals: Totals,
    drops: Arc<Drops>,
}

/// What is kept, at one moment; cheap to take, because events are shared.
pub(crate) struct Kept {
    windows: Vec<Arc<Event>>,
    gaps: Vec<Arc<Event>>,
    who: Option<Arc<Event>>,
}

impl State {
    pub(super) fn new(keep_windows: usize, keep_gaps: usize, drops: Arc<Drops>) -> Self {
        State {
            windows: Ring::new(keep_windows, WINDOWS_BYTES_MAX),
            gaps: Shelf::new(keep_gaps, GAPS_BYTES_MAX),
            who: None,
            totals: Totals::default(),
            drops,
        }
    }

    pub(super) fn take(&mut self, event: &Arc<Event>) -> Taken {
        let kept = match &**event {
            Event::Window(window) => {
                self.totals.add_window(window);
                drops::add(&self.drops.kernel, window.cost.dropped);
                drops::add(&self.drops.torn, window.cost.torn);
                self.windows.push(Arc::clone(event))
            }
            Event::Gap(gap) => {
                self.totals.add_gap(gap);
                let kept = self.gaps.push(Arc::clone(event), gap.duration_ns);
                self.drops.short_gaps.store(self.gaps.let_go(), Ordering::Relaxed);
                kept
            }
            // It was counted when it was told of first: a counter never falls.
            Event::GapCorrection(GapCorrection { gap, .. }) => {
                let is_it = |kept: &Event| matches!(kept, Event::Gap(kept) if kept.is_same(gap));
                let is_kept = self.gaps.replace(is_it, Event::Gap(gap.clone()));
                return if is_kept { Taken::Kept { is_news: true } } else { Taken::NotMine };
            }
            Event::Who(who) => {
                self.totals.set_who(who);
                self.who = Some(Arc::clone(event));
                true
            }
            _ => return Taken::NotMine,
        };
        if kept { Taken::Kept { is_news: true } } else { Taken::Oversized }
    }

    pub(super) fn kept(&self) -> Kept {
        Kept {
            windows: self.windows.events().cloned().collect(),
            gaps: self.gaps.events().cloned().collect(),
            who: self.who.clone(),
        }
    }

    /// The sums since the server began.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }
}

impl Kept {
    /// What of it everybody may see; events that name nobody stay shared. Reports of raisers are made public where they are
    /// shown.
    pub(crate) fn public(&self) -> Kept {
        let of = |events: &[Arc<Event>]| {
            let public = |event: &Arc<Event>| public::event(event).map_or_else(|| Arc::clone(event), Arc::new);
            events.iter().map(public).collect()
        };
        Kept { windows: of(&self.windows), gaps: of(&self.gaps), who: self.who.clone() }
    }

    /// What of it this viewer may see.
    pub(crate) fn seen_by(self, viewer: Viewer) -> Kept {
        if viewer.sees_all { self } else { self.public() }
    }

    /// The windows, oldest first.
    pub(crate) fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> {
        self.windows.iter().filter_map(|event| if let Event::Window(window) = &**event { Some(window) } else { None })
    }

    /// The gaps, in the order in which they were found.
    pub(crate) fn gaps(&self) -> impl DoubleEndedIterator<Item = &Gap> {
        self.gaps.iter().filter_map(|event| if let Event::Gap(gap) = &**event { Some(gap) } else { None })
    }

    /// The newest report of who interrupted the watched cores, where that is watched.
    pub(crate) fn who(&self) -> Option<&WhoReport> {
        self.who.as_deref().and_then(|event| if let Event::Who(who) = event { Some(who.as_ref()) } else { None })
    }

    /// End of the newest window; 0 without one.
    pub(crate) fn end_ns(&self) -> u64 {
        self.windows().next_back().map_or(0, |window| window.end_ns)
    }

    /// What the newest window cost.
    pub(crate) fn cost(&self) -> SelfCost {
        self.windows().next_back().map(|window| window.cost.clone()).unwrap_or_default()
    }

    /// The windows of the last minute of data, and the gaps of the same time.
    pub(crate) fn last_minute(&self) -> (Vec<&Window>, Vec<&Gap>) {
        let from_ns = self.end_ns().saturating_sub(FINDINGS_SPAN_NS);
        let windows = self.windows().filter(|window| window.end_ns > from_ns).collect();
        let gaps = self.gaps().filter(|gap| gap.start_ns.saturating_add(gap.duration_ns) > from_ns).collect();
        (windows, gaps)
    }
}
