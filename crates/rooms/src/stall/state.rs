//! What is kept of lost time: the newest windows, the newest and longest gaps, and sums since the start.

use super::marks::Marks;
use super::public;
use super::totals::Totals;
use crate::Taken;
use crate::drops::{self, Drops};
use crate::ring::Ring;
use crate::shelf::Shelf;
use crate::viewer::Private;
use crate::viewer::Viewer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_model::{CoresTaken, Event, Gap, GapCorrection, SelfCost, WhoReport, Window};
use surefoot_who::range::{self, Mark};

/// Memory for the kept windows, whatever their number: 16 MiB.
const WINDOWS_BYTES_MAX: usize = 16 << 20;
/// Memory for the kept gaps: 4 MiB.
const GAPS_BYTES_MAX: usize = 4 << 20;
/// The stretch of data that the findings speak of.
const FINDINGS_SPAN_NS: u64 = 60_000_000_000;
/// What Surefoot itself takes from cores on purpose: so many things at one time are remembered.
const TAKEN_MAX: usize = 16;

/// What is kept of lost time.
pub struct State {
    windows: Ring,
    gaps: Shelf,
    /// The newest report of who interrupted the watched cores.
    who: Option<Arc<Event>>,
    marks: Marks,
    totals: Totals,
    drops: Arc<Drops>,
    taken: Taking,
}

/// What experiments take from cores on purpose, by the experiment's name.
#[derive(Debug, Clone, Default)]
struct Taking(BTreeMap<String, TakenByOne>);

#[derive(Debug, Clone)]
struct TakenByOne {
    what: String,
    /// The user whose journal says so, unless it is root's.
    uid: Option<u32>,
    end_ns: Option<u64>,
}

impl Taking {
    fn take(&mut self, CoresTaken { by, what, uid, is_over }: CoresTaken, at_ns: u64) {
        match (is_over, self.0.get_mut(&by)) {
            (true, Some(one)) => one.end_ns = one.end_ns.or(Some(at_ns)),
            (false, None) => {
                self.0.insert(by, TakenByOne { what, uid, end_ns: None });
                while self.0.len() > TAKEN_MAX {
                    self.drop_one();
                }
            }
            _ => {}
        }
    }

    /// Drops the oldest of the user who has the most, root's last: names are in the order of time, and a user may write any.
    fn drop_one(&mut self) {
        let count = |uid: Option<u32>| self.0.values().filter(|one| one.uid == uid).count();
        let most = self.0.values().map(|one| one.uid).max_by_key(|uid| (uid.is_some(), count(*uid)));
        let name = most.and_then(|uid| self.0.iter().find(|(_, one)| one.uid == uid)).map(|(name, _)| name.clone());
        name.and_then(|name| self.0.remove(&name));
    }

    /// What was taken in the minute before this, a sentence for each.
    fn within(&self, end_ns: u64) -> Vec<String> {
        let is_within = |end: &Option<u64>| end.is_none_or(|end| end.saturating_add(FINDINGS_SPAN_NS) > end_ns);
        let said = |(by, TakenByOne { what, uid, end_ns }): (&String, &TakenByOne)| {
            let ended = if end_ns.is_some() { "; it has ended" } else { "" };
            match uid {
                None => format!("an experiment of Surefoot's own {what}, which is part of this ({by}{ended})"),
                Some(uid) => format!("user {uid} reports an experiment that {what}{ended}"),
            }
        };
        self.0.iter().filter(|(_, one)| is_within(&one.end_ns)).map(said).collect()
    }
}

/// What is kept, at one moment; cheap to take, because events are shared.
pub struct Kept {
    windows: Vec<Arc<Event>>,
    gaps: Vec<Arc<Event>>,
    who: Option<Arc<Event>>,
    taken: Vec<String>,
}

impl State {
    /// Keeps so many windows and gaps, and counts what it lets go.
    pub fn new(keep_windows: usize, keep_gaps: usize, drops: Arc<Drops>) -> Self {
        State {
            windows: Ring::new(keep_windows, WINDOWS_BYTES_MAX),
            gaps: Shelf::new(keep_gaps, GAPS_BYTES_MAX),
            who: None,
            marks: Marks::default(),
            totals: Totals::default(),
            drops,
            taken: Taking::default(),
        }
    }

    /// Takes an event in.
    pub fn take(&mut self, event: &Arc<Event>) -> Taken {
        if let Some(taken) = event.takes_cores() {
            self.taken.take(taken, event.comes_to_ns().unwrap_or(0));
        }
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
                self.marks.take(who);
                self.who = Some(Arc::clone(event));
                true
            }
            _ => return Taken::NotMine,
        };
        if kept { Taken::Kept { is_news: true } } else { Taken::Oversized }
    }

    /// What is kept now.
    pub fn kept(&self) -> Kept {
        let kept = Kept {
            windows: self.windows.events().cloned().collect(),
            gaps: self.gaps.events().cloned().collect(),
            who: self.who.clone(),
            taken: Vec::new(),
        };
        Kept { taken: self.taken.within(kept.end_ns()), ..kept }
    }

    /// The report of raisers, and the counts before the newest of its time; 0 for all of it.
    pub fn raisers(&self, range_ns: u64) -> (Option<Arc<Event>>, Option<Arc<Mark>>) {
        let mark = match self.who.as_deref() {
            Some(Event::Who(who)) if range_ns > 0 => self.marks.before(who.end_ns, range_ns),
            _ => None,
        };
        (self.who.clone(), mark)
    }

    /// The sums since the server began.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }
}

impl Private for Kept {
    fn seen_by(self, viewer: Viewer) -> Self {
        if viewer.sees_all { self } else { self.public() }
    }
}

impl Kept {
    /// Raisers alone, since the mark.
    pub fn of_raisers((who, mark): (Option<Arc<Event>>, Option<Arc<Mark>>)) -> Self {
        let who = match (who.as_deref(), mark) {
            (Some(Event::Who(report)), Some(mark)) => Some(Arc::new(Event::Who(Box::new(range::since(report, &mark))))),
            _ => who,
        };
        Kept { windows: Vec::new(), gaps: Vec::new(), who, taken: Vec::new() }
    }

    /// What of it everybody may see; events that name nobody stay shared.
    pub fn public(&self) -> Kept {
        let of = |events: &[Arc<Event>]| {
            let public = |event: &Arc<Event>| public::event(event).map_or_else(|| Arc::clone(event), Arc::new);
            events.iter().map(public).collect()
        };
        let who = self.who().map(|report| Arc::new(Event::Who(Box::new(public::sums(report.clone())))));
        Kept { windows: of(&self.windows), gaps: of(&self.gaps), who, taken: self.taken.clone() }
    }

    /// The windows, oldest first.
    pub fn windows(&self) -> impl DoubleEndedIterator<Item = &Window> {
        self.windows.iter().filter_map(|event| if let Event::Window(window) = &**event { Some(window) } else { None })
    }

    /// The gaps, in the order in which they were found.
    pub fn gaps(&self) -> impl DoubleEndedIterator<Item = &Gap> {
        self.gaps.iter().filter_map(|event| if let Event::Gap(gap) = &**event { Some(gap) } else { None })
    }

    /// The newest report of who interrupted the watched cores, where that is watched.
    pub fn who(&self) -> Option<&WhoReport> {
        self.who.as_deref().and_then(|event| if let Event::Who(who) = event { Some(who.as_ref()) } else { None })
    }

    /// What Surefoot itself took from cores on purpose in the last minute, a sentence for each; names nobody's programs.
    pub fn taken(&self) -> &[String] {
        &self.taken
    }

    /// End of the newest window; 0 without one.
    pub fn end_ns(&self) -> u64 {
        self.windows().next_back().map_or(0, |window| window.end_ns)
    }

    /// What the newest window cost.
    pub fn cost(&self) -> SelfCost {
        self.windows().next_back().map(|window| window.cost.clone()).unwrap_or_default()
    }

    /// The windows of the last minute of data, and the gaps of the same time.
    /// What of it is of the last minute, which findings are about: an hour of windows need not be gone through for them.
    pub fn of_last_minute(&self) -> Kept {
        let from_ns = self.end_ns().saturating_sub(FINDINGS_SPAN_NS);
        let is_late = |event: &&Arc<Event>| match &***event {
            Event::Window(window) => window.end_ns > from_ns,
            Event::Gap(gap) => gap.start_ns.saturating_add(gap.duration_ns) > from_ns,
            _ => true,
        };
        let of = |events: &[Arc<Event>]| events.iter().filter(is_late).cloned().collect();
        Kept { windows: of(&self.windows), gaps: of(&self.gaps), who: self.who.clone(), taken: self.taken.clone() }
    }

    /// Those of the last minute.
    pub fn last_minute(&self) -> (Vec<&Window>, Vec<&Gap>) {
        let from_ns = self.end_ns().saturating_sub(FINDINGS_SPAN_NS);
        let windows = self.windows().filter(|window| window.end_ns > from_ns).collect();
        let gaps = self.gaps().filter(|gap| gap.start_ns.saturating_add(gap.duration_ns) > from_ns).collect();
        (windows, gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, CauseKind, CpuId, Interrupt};

    fn taken(by: &str, what: &str) -> CoresTaken {
        CoresTaken { by: by.into(), what: what.into(), uid: None, is_over: what.is_empty() }
    }

    #[test]
    fn a_users_experiments_push_no_others_off_and_say_nothing_in_his_words() {
        let mut taking = Taking::default();
        taking.take(taken("2026", "holds core 1"), 5);
        for number in 0..100 {
            let by = format!("99-send-money-{number:03}");
            taking.take(CoresTaken { uid: Some(1000), ..taken(&by, "holds core 0") }, 5);
        }
        let said = taking.within(0);
        assert_eq!(said.len(), TAKEN_MAX);
        assert_eq!(said[0], "an experiment of Surefoot's own holds core 1, which is part of this (2026)");
        assert_eq!(said[1], "user 1000 reports an experiment that holds core 0");
    }

    #[test]
    fn raisers_answer_for_the_range_that_is_asked_for() {
        let mut state = State::new(10, 10, Arc::new(Drops::default()));
        const S: u64 = 1_000_000_000;
        for turn in 1..=174u64 {
            let cause = Cause::new(CauseKind::TlbShootdown, "flush_tlb_func");
            let interrupts = vec![Interrupt::new(CpuId(1), cause, turn * 100, turn * 1_000)];
            let who = WhoReport { end_ns: turn * 5 * S, interrupts, ..WhoReport::default() };
            state.take(&Arc::new(Event::Who(Box::new(who))));
        }
        let asked = |range_s: u64| {
            let kept = Kept::of_raisers(state.raisers(range_s * S));
            let who = kept.who().expect("a report");
            (who.duration_ns() / S, who.interrupts[0].count, who.watch_start_ns)
        };
        assert_eq!(asked(0), (870, 17_400, None));
        assert_eq!(asked(60), (60, 1_200, Some(0)));
        assert_eq!(asked(300), (300, 6_000, Some(0)));
        assert_eq!(asked(900), (870, 17_400, None), "the watch is not that old");
    }

    #[test]
    fn what_was_taken_is_told_for_a_minute_after_its_end() {
        let mut taking = Taking::default();
        taking.take(taken("a", "holds core 1"), 5);
        let said = ["an experiment of Surefoot's own holds core 1, which is part of this (a)"];
        assert_eq!(taking.within(9 * FINDINGS_SPAN_NS), said);
        taking.take(taken("a", ""), 7);
        taking.take(taken("a", ""), 9 * FINDINGS_SPAN_NS);
        assert!(taking.within(FINDINGS_SPAN_NS)[0].ends_with("(a; it has ended)"));
        assert!(taking.within(FINDINGS_SPAN_NS + 7).is_empty());
        (0..100).for_each(|number| taking.take(taken(&format!("{number:03}"), "holds core 1"), 5));
        assert_eq!(taking.within(0).len(), TAKEN_MAX);
    }
}
