//! The watch: follows reports as they come, looks at the counts every few seconds, and tells both as events.
//!
//! However fast errors come, it takes bounded time and memory: a turn reads so many bytes, reports beyond a few per second are
//! counted instead of told, and of each module a bounded part of the evidence is kept.
//!
//! ```
//! use surefoot_hostfs::Root;
//! use surefoot_memory::watch::{Settings, Watch};
//! let mut watch = Watch::open(&Root::at("/a/recorded/tree"), Settings::default());
//! for event in watch.turn() {
//!     println!("{event:?}");
//! }
//! ```

mod allowance;
mod keeper;
mod labels;
mod suspects;

pub use allowance::{TOLD_AT_ONCE, TOLD_PER_S};
pub use keeper::Keeper;
pub use labels::Labels;
pub use suspects::Suspects;

use crate::bmc;
use crate::closing::{self, Closing};
use crate::cost;
use crate::counted;
use crate::counts::{Kept, KeptFile};
use crate::doctor;
use crate::follow::{Follower, Lost};
use crate::look::Looker;
use crate::owner::Teller;
use crate::presence::Presence;
use crate::rate::Limit;
use crate::read::machine;
use crate::reports::{cut, is_list, place_of};
use allowance::Allowance;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use surefoot_hostfs::{Root, clock};
use surefoot_model::{ErrorReport, LossKind, MemoryCheck, MemoryEvent, MemoryLook, MemoryProblem, MemorySource};

/// The time between two looks while nothing is reported and no controller counts.
pub const LOOK_PERIOD: Duration = Duration::from_secs(30);
/// The time between two looks while errors are reported.
pub const LOOK_PERIOD_BUSY: Duration = Duration::from_secs(2);
/// What one turn reads of the trace.
const TURN_BYTES: usize = 1 << 20;
/// Events of a turn; a turn tells a few reports, a look, and what is lost.
const PROBLEMS_MAX: usize = 64;
/// How often the accounting itself is looked at.
const CHECK_PERIOD: Duration = Duration::from_secs(600);

/// How often a watch looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// The time between two looks while nothing is reported and no controller counts.
    pub quiet: Duration,
    /// The same while errors are reported.
    pub busy: Duration,
    /// The time between two checks of the accounting itself.
    pub checks: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { quiet: LOOK_PERIOD, busy: LOOK_PERIOD_BUSY, checks: CHECK_PERIOD }
    }
}

/// What a watch is told.
#[derive(Debug)]
pub struct Settings {
    /// How often it looks.
    pub pace: Pace,
    /// The time between two questions to a management controller.
    pub bmc_period: Duration,
    /// The rate of corrected errors that a module may have.
    pub limit: Limit,
    /// The file that keeps the counts between runs; without one they begin anew with each.
    pub state: Option<Box<dyn KeptFile>>,
    /// The counts to go on from where there is no such file: somebody else keeps them.
    pub kept: Option<Kept>,
    /// Management controllers that are asked as well.
    pub bmc: bmc::Sources,
    /// What was reported before, as a history has it, that of other recorders among it: it tells of faults.
    pub kept_reports: Vec<ErrorReport>,
    /// What kept those from being read.
    pub kept_problem: Option<MemoryProblem>,
    /// Faults that were closed, as a history has it; those in the host's journal of deeds are known anyway.
    pub closings: Vec<Closing>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            pace: Pace::default(),
            bmc_period: bmc::PERIOD,
            limit: Limit::default(),
            state: None,
            kept: None,
            bmc: bmc::Sources::default(),
            kept_reports: Vec::new(),
            kept_problem: None,
            closings: Vec::new(),
        }
    }
}

/// Watches the memory errors of a host.
#[derive(Debug)]
pub struct Watch {
    root: Root,
    pace: Pace,
    looker: Looker,
    follower: Option<Follower>,
    /// Why reports are not followed.
    problem: Option<MemoryProblem>,
    has_source: bool,
    suspects: Suspects,
    allowance: Allowance,
    /// Of pages that are lost.
    teller: Teller,
    labels: Labels,
    look: Option<MemoryLook>,
    looked_ns: u64,
    has_news: bool,
    is_behind: bool,
    lost: Vec<Lost>,
    checks: Vec<MemoryCheck>,
    checked_ns: Option<u64>,
    began_ns: u64,
    /// Of how many runs of the kernel's worker the cost was told.
    handled_count: u64,
    keeper: Option<Keeper>,
    poller: Option<bmc::Poller>,
    /// What is to be said of reports that were kept.
    of_kept: Vec<MemoryProblem>,
    closings: closing::Journal,
}

impl Watch {
    /// Begins to watch. Where reports cannot be followed, counts are looked at all the same, and every look says why.
    pub fn open(root: &Root, settings: Settings) -> Self {
        let mut looker = Looker::new(root.clone()).with_limit(settings.limit);
        let mut keeper = settings.state.map(|file| Keeper::open(file, machine(root).as_deref()));
        if let Some(kept) = keeper.as_mut().and_then(Keeper::take).or(settings.kept) {
            looker = looker.with_kept(kept);
        }
        // What is counted before reports are followed is never reported again.
        let first = looker.look();
        let (follower, problem) = match Follower::open(root) {
            Ok(follower) => (Some(follower), None),
            // A tree without a trace is complete without it.
            Err(_) if !root.is_host() => (None, None),
            Err(unsupported) => {
                let why = format!("reports are not followed as they come: {unsupported}");
                (None, Some(MemoryProblem { source: MemorySource::McEvent, path: "tracefs".into(), why }))
            }
        };
        let mut watch = Watch {
            root: root.clone(),
            pace: settings.pace,
            looker,
            follower,
            problem,
            has_source: Presence::of(root).is_any() || settings.bmc.is_any(),
            suspects: Suspects::new(settings.limit),
            allowance: Allowance::new(clock::monotonic_ns()),
            teller: Teller::default(),
            labels: Labels::default(),
            look: None,
            looked_ns: 0,
            has_news: false,
            is_behind: false,
            lost: Vec::new(),
            checks: Vec::new(),
            checked_ns: None,
            began_ns: clock::monotonic_ns(),
            handled_count: 0,
            keeper,
            poller: bmc::Poller::start(settings.bmc, settings.bmc_period),
            of_kept: settings.kept_problem.into_iter().collect(),
            closings: closing::Journal::of(root),
        };
        watch.close(&settings.closings);
        watch.take_closings();
        watch.take_kept(&first, settings.kept_reports);
        watch.keep(first, false);
        watch
    }

    /// From now on looks at this pace, and bears this rate of corrected errors. A module's bucket begins anew with another rate.
    pub fn set(&mut self, pace: Pace, limit: Limit) {
        self.pace = pace;
        self.looker.set_limit(limit);
        self.suspects.set_limit(limit);
    }

    /// Takes in the closings of the journal, if there are new ones. Whether there are.
    fn take_closings(&mut self) -> bool {
        let news = self.closings.news();
        self.close(&news)
    }

    fn close(&mut self, closings: &[Closing]) -> bool {
        let closed = closings.iter().filter(|closing| self.looker.close(closing).is_some()).count();
        // Also those of an earlier run, whose reports the history still has.
        for (module, at_ns) in self.looker.kept().all_closed() {
            self.suspects.close(module, at_ns);
        }
        closed > 0
    }

    /// Takes in what was reported before. Of a host whose counters know no module, every module that is named counts.
    fn take_kept(&mut self, first: &MemoryLook, reports: Vec<ErrorReport>) {
        let labels = Labels::of(first);
        let mut elsewhere = 0;
        for mut report in reports {
            let is_uncounted = report.source == MemorySource::CxlEvent || first.dimms.is_empty();
            match labels.module_of_kept(&self.looker, &report) {
                // A module that came since is not what failed then.
                Some(id) if report.at_realtime_ns < self.looker.kept().here_since(&id) => {
                    elsewhere += 1;
                    continue;
                }
                Some(id) => report.dimm = Some(id),
                None if report.dimm.is_none() => continue,
                None if is_list(&report) && report.dimm == place_of(&report) => {}
                None if is_uncounted => {}
                None => {
                    elsewhere += 1;
                    continue;
                }
            }
            self.suspects.add_past(&report, first.at_ns);
        }
        if elsewhere > 0 {
            let reports = counted(elsewhere, "report in the history is", "reports in the history are");
            let why = format!(
                "{reports} of modules that are not here (now), by serial number, label and place: not counted for any"
            );
            self.of_kept.push(MemoryProblem { source: MemorySource::McEvent, path: "history".into(), why });
        }
    }

    /// One turn, which waits for nothing: what was reported since the last one, and a look where it is time for one.
    pub fn turn(&mut self) -> Vec<MemoryEvent> {
        let mut events = match self.look.take() {
            Some(first) => vec![MemoryEvent::Look(first)],
            None => Vec::new(),
        };
        // What was reported in this turn is judged by its own time.
        let has_closings = self.take_closings();
        self.follow(&mut events);
        let now_ns = clock::monotonic_ns();
        events.extend(self.checked(now_ns));
        let passed_ns = u128::from(now_ns.saturating_sub(self.looked_ns));
        // Where nothing is reported as it comes, the totals of the controllers tell that there is something to see.
        if self.follower.is_none() && !self.has_news && passed_ns >= self.pace.busy.as_nanos() {
            self.has_news = self.looker.has_counted();
        }
        let period = if self.has_news { self.pace.busy } else { self.pace.quiet };
        let is_due = passed_ns >= period.as_nanos();
        let has_answers = self.poller.as_mut().is_some_and(|poller| poller.newest().1);
        if is_due || has_answers || has_closings {
            events.push(self.looked(false));
            events.extend(self.costs());
        }
        events
    }

    /// The last word: what was held back, and how things stand.
    pub fn finish(&mut self) -> Vec<MemoryEvent> {
        let mut events = Vec::new();
        self.take_closings();
        self.follow(&mut events);
        let mut held = Vec::new();
        if let Some(follower) = &mut self.follower {
            follower.finish(&mut |report| held.push(report));
        }
        for report in held {
            events.extend(self.take(report).map(MemoryEvent::Report));
        }
        events.extend(self.changed_losses());
        events.push(self.looked(true));
        events.extend(self.costs());
        events
    }

    /// Whether more waits to be read, so that the next turn should come soon.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// The counts, for who keeps them.
    pub fn kept(&self) -> &Kept {
        self.looker.kept()
    }

    fn follow(&mut self, events: &mut Vec<MemoryEvent>) {
        let Some(mut follower) = self.follower.take() else { return };
        let read = follower.turn(TURN_BYTES, &mut |report| {
            events.extend(self.take(report).map(MemoryEvent::Report));
        });
        match read {
            Ok(is_more) => {
                self.is_behind = is_more;
                self.follower = Some(follower);
            }
            Err(error) => {
                self.is_behind = false;
                let why = format!("{error}; reports are followed no more, counts are");
                self.problem = Some(MemoryProblem { source: MemorySource::McEvent, path: "trace_pipe".into(), why });
            }
        }
        events.extend(self.changed_losses());
    }

    /// Takes a report in; gives it back where it is to be told.
    fn take(&mut self, mut report: ErrorReport) -> Option<ErrorReport> {
        self.has_news = true;
        if report.dimm.is_none() {
            report.dimm = self.labels.module_of(&self.looker, &report);
        }
        // A list of labels is a group of suspects of its own.
        if report.dimm.is_none() && is_list(&report) {
            report.dimm = place_of(&report);
        }
        let now_ns = clock::monotonic_ns();
        self.suspects.add(&report, now_ns);
        let is_told = self.allowance.take(&report, now_ns);
        let lost = report.location.address.filter(|_| is_told && report.source == MemorySource::MemoryFailure);
        // Of a recorded tree nobody's memory is here.
        if let Some(address) = lost.filter(|_| self.root.is_host()) {
            let whose = self.teller.words(&self.root, address, now_ns);
            report.detail = cut(&format!("{}; {whose}", report.detail));
        }
        is_told.then_some(report)
    }

    /// What is lost, where that is more than was said.
    fn changed_losses(&mut self) -> Vec<MemoryEvent> {
        let mut lost = self.follower.as_mut().map(Follower::lost).unwrap_or_default();
        lost.extend(self.allowance.untold().iter().map(|(&source, &count)| Lost {
            source,
            kind: LossKind::NotListed,
            count,
            why: format!("more than {TOLD_PER_S} came per second"),
        }));
        let changed = lost.iter().filter(|one| !self.lost.contains(one));
        let told = changed.map(|Lost { source, kind, count, why }| MemoryEvent::Lost {
            source: *source,
            kind: *kind,
            count: *count,
            why: why.clone(),
        });
        let told = told.collect();
        self.lost = lost;
        told
    }

    /// What the doctor says, where it is time to ask and the answer is another one.
    fn checked(&mut self, now_ns: u64) -> Option<MemoryEvent> {
        let period_ns = self.pace.checks.as_nanos();
        let is_due = |then: u64| u128::from(now_ns.saturating_sub(then)) >= period_ns;
        if !self.checked_ns.is_none_or(is_due) {
            return None;
        }
        self.checked_ns = Some(now_ns);
        let checks = doctor::check(&self.root).ok().filter(|checks| *checks != self.checks)?;
        self.checks.clone_from(&checks);
        Some(MemoryEvent::Checks { checks })
    }

    /// What handling cost so far, where that was timed and is another number than was told.
    fn costs(&mut self) -> Option<MemoryEvent> {
        let handled = self.follower.as_ref()?.handled()?;
        if handled.count == self.handled_count {
            return None;
        }
        self.handled_count = handled.count;
        let over_ns = clock::monotonic_ns().saturating_sub(self.began_ns);
        Some(MemoryEvent::Costs { costs: vec![cost::of_handled(handled, over_ns)] })
    }

    fn looked(&mut self, is_last: bool) -> MemoryEvent {
        let look = self.looker.look();
        self.keep(look, is_last);
        MemoryEvent::Look(self.look.take().unwrap_or_default())
    }

    fn keep(&mut self, mut look: MemoryLook, is_last: bool) {
        let is_counted = look.unsupported.is_none();
        if let Some(poller) = &mut self.poller {
            bmc::join_all(&mut look, poller.newest().0);
        }
        self.labels = Labels::of(&look);
        let contradictions = self.suspects.contradictions(&look);
        self.suspects.complete(&mut look);
        let suspects = &self.suspects;
        self.looker.tell_closed(&mut look, |module| suspects.since_closed(module));
        let is_worth_keeping = is_counted || self.looker.kept().closings_mark() != 0;
        if let Some(keeper) = self.keeper.as_mut().filter(|_| is_worth_keeping) {
            keeper.keep(self.looker.kept(), look.at_ns, is_last);
        }
        let path = "trace events";
        let source = MemorySource::McEvent;
        let contradictions = contradictions.into_iter().map(|why| MemoryProblem { source, path: path.into(), why });
        look.problems.extend(contradictions);
        if self.has_source {
            look.unsupported = None;
        }
        let kept = self.keeper.iter().filter_map(Keeper::problem);
        let problems =
            self.follower.iter().flat_map(Follower::problems).chain(&self.problem).chain(&self.of_kept).chain(kept);
        let problems = problems.chain(self.closings.problem());
        look.problems.extend(problems.take(PROBLEMS_MAX).cloned());
        if let Some(why) = self.suspects.unplaced() {
            look.problems.push(MemoryProblem { source: MemorySource::McEvent, path: "trace events".into(), why });
        }
        self.looked_ns = look.at_ns;
        self.has_news = false;
        self.look = Some(look);
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
