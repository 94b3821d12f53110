//! The collector: closes a window every second and turns it into events.

pub(crate) mod attach;
mod capabilities;
pub(crate) mod cost;
mod ebpf;
mod gaps;
mod home;
mod sleeper;
mod wall_clock;
mod who;

pub use capabilities::{host_capabilities, opening_of};

use crate::collect::attach::Patching;
use crate::collect::capabilities::{attach, facts};
use crate::collect::cost::{OwnCost, Slots};
use crate::collect::ebpf::EbpfSource;
use crate::collect::gaps::Gaps;
use crate::collect::home::Home;
use crate::collect::sleeper::Sleepers;
use crate::collect::wall_clock::WallClock;
use crate::collect::who::WhoSide;
use crate::config::{Config, housekeeping_core};
use crate::gap::pending::keep_longest;
use crate::gap::tapes::Traced;
use crate::gap::witness::{SETTLING_NS, Witness};
use crate::ledger::kernel_counters::{self, Lag};
use crate::status::{self, Tracing};
use crate::{Error, host, namespaces};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock;
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{Capability, ClockChange, CpuId, Event, Gap, HostDescription, Notice, SelfCost, Window};
use surefoot_probes::{Probes, Reads};
use surefoot_sys::thread;

/// How often late timers, tapes and counters are looked at within a window.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A reading of the ticks that took longer than a step of theirs is tried again, so often in all.
const TICKS_READ_NS_MAX: u64 = 10_000_000;
const TICKS_READ_TRIES: usize = 5;

/// Changes of the wall clock that one window tells of.
const CLOCK_CHANGES_MAX: usize = 64;

enum Source {
    Ebpf(Box<EbpfSource>),
    Counters(Sleepers),
}

impl Source {
    fn traced(&mut self) -> Option<&mut Traced> {
        match self {
            Source::Ebpf(ebpf) => Some(ebpf.traced()),
            Source::Counters(_) => None,
        }
    }

    /// What the cost is counted from: the programs, and the slots as the last window's end found them.
    fn read(&self) -> Option<(&Probes, &Slots)> {
        match self {
            Source::Ebpf(ebpf) => Some((ebpf.probes(), ebpf.slots())),
            Source::Counters(_) => None,
        }
    }
}

/// The ticks of all cores, and when they were read.
struct TimedStat {
    before_ns: u64,
    stat: Stat,
    after_ns: u64,
}

impl TimedStat {
    /// Reads them, again where this took long: then it is not known when they were so.
    fn read(root: &Root) -> Result<TimedStat, Error> {
        let once = || -> Result<TimedStat, Error> {
            let before_ns = clock::monotonic_ns();
            let stat = Stat::read(root)?;
            Ok(TimedStat { before_ns, stat, after_ns: clock::monotonic_ns() })
        };
        let mut best = once()?;
        for _ in 1..TICKS_READ_TRIES {
            if best.took_ns() <= TICKS_READ_NS_MAX {
                break;
            }
            best = Some(once()?).filter(|again| again.took_ns() < best.took_ns()).unwrap_or(best);
        }
        Ok(best)
    }

    fn took_ns(&self) -> u64 {
        self.after_ns - self.before_ns
    }
}

/// Watches a host and tells what its cores' time went to.
pub struct Collector {
    root: Root,
    config: Config,
    host: HostDescription,
    capabilities: Vec<Capability>,
    source: Source,
    who: Option<WhoSide>,
    home: Option<Home>,
    /// The cores whose tapes the watch for raisers does not read: all of them, where there is none.
    unwatched_tapes: Vec<CpuId>,
    gaps: Gaps,
    wall_clock: WallClock,
    /// Since the last window.
    clock_changes: Vec<ClockChange>,
    /// When the reading began that the next window is counted from.
    start_ns: u64,
    ticks: TimedStat,
    lag: Lag,
    interrupts: Interrupts,
    online: BTreeSet<CpuId>,
    cost: OwnCost,
    /// What attaching cost, until it is told.
    attach_interrupts: Option<u64>,
    dropped_before: u64,
}

impl Collector {
    /// Starts watching.
    ///
    /// # Errors
    /// [`Error::Core`] and [`Error::Option`] for options that cannot be met; [`Error::Probes`] when eBPF was demanded
    /// and is not to be had (with [`SourceChoice::Best`] the kernel's counters are used instead and
    /// [`HostDescription::missing`] says so), or when raisers are to be named, which nothing less can; [`Error::Host`]
    /// when not even /proc can be read.
    ///
    /// [`SourceChoice::Best`]: crate::SourceChoice::Best
    pub fn start(root: &Root, config: Config) -> Result<Self, Error> {
        let config = config.checked(root)?;
        let identity = Identity::read(root);
        let housekeeping =
            config.sentinel.map(|sentinel| sentinel.cpu).or_else(|| housekeeping_core(&config.cpus, root));
        let patching = Patching::begin(root);
        let probes = attach(&config, root)?;
        let tracing = match &probes {
            Ok(probes) => Tracing::Attached { flavour: probes.flavour(), missing: probes.missing().to_vec() },
            Err(refused) => refused.clone(),
        };
        let witness = Witness::open(root, &identity, housekeeping.or_else(|| config.cpus.first().copied()));
        let (mut source, missing) = match probes {
            Ok(probes) => (
                Source::Ebpf(Box::new(EbpfSource::new(root, probes, &config)?)),
                namespaces::reduced().unwrap_or_default(),
            ),
            Err(refused) => {
                let (sleepers, _) = Sleepers::start(&config.cpus, config.gap_threshold_ns);
                let line = match &refused {
                    Tracing::Refused { why, remedy } => format!("{why}; {remedy}"),
                    Tracing::Attached { .. } => String::new(),
                };
                (Source::Counters(sleepers), line)
            }
        };
        let source_name = match &source {
            Source::Ebpf(ebpf) => ebpf.label(),
            Source::Counters(_) => "kernel counters",
        };
        let kernel = source.traced().map(|traced| traced.tapes.names().kernel());
        let facts = facts(root, &identity, tracing, &witness, kernel);
        let is_guest = identity.hypervisor.is_some();
        let host = host::describe(&identity, &config, source_name, &missing);
        let mut collector = Collector {
            wall_clock: WallClock::begin(host.realtime_offset_ns),
            clock_changes: Vec::new(),
            host,
            capabilities: status::capabilities(&facts),
            gaps: Gaps::start(witness, is_guest, config.sentinel, config.gap_threshold_ns)?,
            source,
            who: None,
            home: None,
            unwatched_tapes: config.cpus.clone(),
            start_ns: clock::monotonic_ns(),
            ticks: TimedStat::read(root)?,
            interrupts: Interrupts::read(root)?,
            online: cpus::online(root)?.into_iter().collect(),
            lag: Lag::default(),
            cost: OwnCost::default(),
            attach_interrupts: None,
            dropped_before: 0,
            root: root.clone(),
            config,
        };
        if let Some(who) = &collector.config.who {
            let who = WhoSide::attach(root, collector.source.traced(), who, &missing)?;
            collector.unwatched_tapes.retain(|cpu| !who.cpus().contains(cpu));
            collector.who = Some(who);
        }
        if matches!(collector.source, Source::Ebpf(_)) {
            collector.attach_interrupts = patching.end(root, &collector.config.cpus);
            collector.home = Home::gather(&collector.config, root);
        }
        collector.begin()?;
        collector.look();
        Ok(collector)
    }

    /// The first window begins: everything is read at once that it is counted from, and nothing else is done meanwhile.
    fn begin(&mut self) -> Result<(), Error> {
        self.ticks = TimedStat::read(&self.root)?;
        self.start_ns = self.ticks.before_ns;
        if let Source::Ebpf(ebpf) = &mut self.source {
            self.start_ns = ebpf.restart(&self.config.cpus);
        }
        self.interrupts = Interrupts::read(&self.root)?;
        self.cost = OwnCost::start(self.source.read(), &self.config.cpus).listing();
        self.gaps.begin(self.start_ns);
        Ok(())
    }

    /// What opens the stream: the host and its capabilities.
    pub fn opening(&self) -> Vec<Event> {
        vec![Event::Host(self.host.clone()), Event::Capabilities { capabilities: self.capabilities.clone() }]
    }

    /// What was copied out of the programs' arrays so far; `None` without eBPF.
    pub fn reads(&self) -> Option<Reads> {
        self.source.read().map(|(probes, _)| probes.reads())
    }

    /// The capabilities alone.
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    /// Waits for the end of the window (or for `stop`) and returns its events: notices, the window, its gaps.
    ///
    /// # Errors
    /// [`Error::Host`] when /proc cannot be read any more.
    pub fn next_window(&mut self, stop: &AtomicBool) -> Result<Vec<Event>, Error> {
        self.next_window_unless(|| stop.load(Ordering::Relaxed))
    }

    /// As [`Collector::next_window`], ending as soon as the answer is yes.
    ///
    /// # Errors
    /// As there.
    pub fn next_window_unless(&mut self, stopped: impl Fn() -> bool) -> Result<Vec<Event>, Error> {
        let end_ns = self.start_ns + self.config.window.as_nanos() as u64;
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= end_ns || stopped() {
                break;
            }
            self.wait(Duration::from_nanos(end_ns - now_ns));
            self.look();
        }
        let mut events = self.close()?;
        if let (Some(who), Some(traced)) = (&mut self.who, self.source.traced()) {
            events.extend(who.events(traced));
        }
        Ok(events)
    }

    /// What closes the stream: a last window with what has happened since the one before it, and who interrupted the
    /// watched cores, where that was asked for. Then the programs are detached, which this window's cost counts: nothing
    /// watches any more that could tell its time.
    pub fn finish(mut self) -> Vec<Event> {
        let who = match (&mut self.who, self.source.traced()) {
            (Some(who), Some(traced)) => Some(who.last_word(traced)),
            _ => None,
        };
        if matches!(self.source, Source::Counters(_)) {
            return self.last_corrections();
        }
        let mut events = self.close().unwrap_or_default();
        events.extend(self.last_corrections());
        let Collector { root, config, source, who: raisers, .. } = self;
        let detaching = Patching::begin(&root);
        drop((raisers, source));
        if let Some(count) = detaching.end(&root, &config.cpus) {
            let window = events.iter_mut().find_map(|event| match event {
                Event::Window(window) => Some(window),
                _ => None,
            });
            if let Some(window) = window {
                window.cost.attach_interrupts = Some(window.cost.attach_interrupts.unwrap_or(0) + count);
            }
        }
        events.extend(who);
        events
    }

    /// What becomes known of the last gaps; waits for it up to a second where it would change a verdict.
    fn last_corrections(&mut self) -> Vec<Event> {
        if let Some(until_ns) = self.gaps.undecided_until_ns() {
            self.wait_and_look(until_ns);
        }
        self.gaps.corrections().into_iter().map(Event::GapCorrection).collect()
    }

    /// Waits until the next look, or for less.
    fn wait(&mut self, rest: Duration) {
        let (begun, rest) = (Instant::now(), LOOK_EVERY.min(rest));
        let is_busy = match (&mut self.who, self.source.traced()) {
            (Some(who), Some(traced)) => who.look_for(rest, traced),
            _ => {
                thread::rest(rest);
                false
            }
        };
        if let Some(home) = &mut self.home {
            home.rested(begun.elapsed().saturating_sub(rest), is_busy);
        }
    }

    /// Waits until the counters around the last gaps of a window say what they have to say, so that these gaps are in it.
    fn settle(&mut self, end_ns: u64) {
        self.wait_and_look(end_ns + SETTLING_NS);
    }

    /// Waits until this time and looks round then.
    fn wait_and_look(&mut self, until_ns: u64) {
        while let Some(rest_ns) = until_ns.checked_sub(clock::monotonic_ns()).filter(|rest_ns| *rest_ns > 0) {
            self.wait(Duration::from_nanos(rest_ns));
        }
        self.look();
    }

    /// Reads what must not be missed between two ends of windows.
    fn look(&mut self) {
        match &mut self.source {
            Source::Ebpf(ebpf) => {
                ebpf.read_tapes(&self.unwatched_tapes);
                self.gaps.add_late_timers(ebpf.late_timers(&self.config.cpus));
            }
            Source::Counters(sleepers) => self.gaps.add_late_wake_ups(sleepers.take()),
        }
        self.gaps.look();
        // A clock that is set all the time is told of as often as the windows can say.
        if self.clock_changes.len() < CLOCK_CHANGES_MAX {
            self.clock_changes.extend(self.wall_clock.look());
        }
    }

    fn close(&mut self) -> Result<Vec<Event>, Error> {
        let mut notices = self.notice_cores(&cpus::online(&self.root)?);
        let watched: Vec<CpuId> = self.config.cpus.iter().copied().filter(|cpu| self.online.contains(cpu)).collect();
        let ticks = TimedStat::read(&self.root)?;
        let begun_ns = self.start_ns;
        let mut window = Window { start_ns: begun_ns, ..Window::default() };
        // Of each core the next window begins where this one ends, while these are read. So no core's time exceeds its window.
        self.start_ns = match &self.source {
            Source::Ebpf(_) => clock::monotonic_ns(),
            Source::Counters(_) => ticks.before_ns,
        };
        let interrupts = match &mut self.source {
            Source::Ebpf(ebpf) => ebpf.end(&watched, &mut window)?,
            Source::Counters(_) => Interrupts::read(&self.root)?,
        };
        window.end_ns = clock::monotonic_ns();
        self.settle(window.end_ns);
        let corrections = self.gaps.corrections();
        let judged = self.gaps.judge_until(window.end_ns, self.source.traced(), watched.len());
        let rise = interrupts.delta(&self.interrupts);
        self.interrupts = interrupts;
        match &mut self.source {
            Source::Ebpf(ebpf) => {
                let since_ns = ebpf.since_ns();
                let hidden = self.gaps.hidden(&judged, &since_ns);
                // With a core that could not be read at its start the window begins where that was read last.
                window.start_ns = since_ns.into_values().fold(window.start_ns, u64::min);
                ebpf.fold((&self.ticks.stat, &ticks.stat), &hidden, &mut window);
                ebpf.compare(&rise, &mut window);
                if let Some((text, more)) = ebpf.attach_newcomers(&self.config.cpus, &window)? {
                    notices.push(Notice { at_ns: window.end_ns, text });
                    self.attach_interrupts = more.map(|more| self.attach_interrupts.unwrap_or(0) + more);
                }
            }
            Source::Counters(_) => {
                let lag = &mut self.lag;
                let (earlier, later) =
                    (kernel_counters::by_core(&self.ticks.stat), kernel_counters::by_core(&ticks.stat));
                let wall_ns = ticks.after_ns - self.ticks.after_ns;
                // When in a reading the ticks were so is not known.
                let unsure_ns = ticks.took_ns() + self.ticks.took_ns();
                for &cpu in &watched {
                    if let (Some(was), Some(is)) = (earlier.get(&cpu), later.get(&cpu)) {
                        let (core, balanced_ns) = kernel_counters::core_ledger(
                            cpu,
                            (wall_ns, unsure_ns),
                            &is.since(was),
                            ticks.stat.ns(1),
                            lag,
                        );
                        window.cores.push(core);
                        window.cost.balanced_ns += balanced_ns;
                    }
                }
                window.untimed = kernel_counters::untimed(&rise, &watched);
            }
        }
        self.ticks = ticks;
        let mut gaps: Vec<Gap> = judged.into_iter().map(|(gap, _)| gap).collect();
        let beyond = keep_longest(&mut gaps);
        self.gaps.told(&gaps, begun_ns);
        self.add_cost(&mut window.cost, beyond);
        let mut events: Vec<Event> = notices.drain(..).map(Event::Notice).collect();
        events.extend(self.clock_changes.drain(..).map(Event::Clock));
        events.extend(corrections.into_iter().map(Event::GapCorrection));
        events.push(Event::Window(window.check()));
        events.extend(gaps.into_iter().map(Event::Gap));
        Ok(events)
    }

    /// Notes cores that went offline or came back.
    fn notice_cores(&mut self, now_online: &[CpuId]) -> Vec<Notice> {
        let now_online: BTreeSet<CpuId> = now_online.iter().copied().collect();
        let at_ns = clock::monotonic_ns();
        let mut notices = Vec::new();
        for cpu in &self.config.cpus {
            let text = match (self.online.contains(cpu), now_online.contains(cpu)) {
                (true, false) => format!("core {cpu} went offline; its ledger pauses"),
                (false, true) => format!("core {cpu} came back online; its ledger goes on"),
                _ => continue,
            };
            self.lag.forget(*cpu);
            if let Source::Ebpf(ebpf) = &mut self.source {
                ebpf.forget(*cpu);
            }
            notices.push(Notice { at_ns, text });
        }
        self.online = now_online;
        notices
    }

    fn add_cost(&mut self, cost: &mut SelfCost, gaps_beyond: u64) {
        let of_ledgers = std::mem::take(cost);
        *cost = self.cost.since(self.source.read(), &self.config.cpus, &self.root);
        // Turns of the tape that went unread are no loss to the ledger, which the kernel side keeps.
        let mut dropped = match &self.source {
            Source::Ebpf(ebpf) => ebpf.lost_late_timers() + ebpf.lost_names(),
            Source::Counters(sleepers) => sleepers.dropped(),
        };
        dropped += self.gaps.dropped();
        cost.dropped = dropped - self.dropped_before + gaps_beyond;
        cost.torn = of_ledgers.torn;
        cost.untraced_interrupts = of_ledgers.untraced_interrupts;
        (cost.balanced_ns, cost.known_late_ns) = (of_ledgers.balanced_ns, of_ledgers.known_late_ns);
        cost.attach_interrupts = self.attach_interrupts.take();
        self.dropped_before = dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceChoice;
    use crate::collect::sleeper::LateWakeUp;
    use crate::kernel_names::LOADED;
    use crate::who::WhoConfig;
    use surefoot_probes::Workload;
    use surefoot_testkit::not_run::not_run;

    #[test]
    fn a_gap_right_before_the_end_of_a_run_is_counted() {
        let config = Config { source: SourceChoice::Counters, ..Config::default() };
        let mut collector = Collector::start(&Root::host(), config).unwrap_or_else(|error| panic!("{error}"));
        std::thread::sleep(Duration::from_millis(2));
        let woke_ns = clock::monotonic_ns();
        // As long as the window so far: on a busy machine the longest alone are kept.
        let late = LateWakeUp { cpu: CpuId(0), due_ns: collector.start_ns, woke_ns, waited_ns: None };
        collector.gaps.add_late_wake_ups(vec![late]);
        let last = collector.next_window(&AtomicBool::new(true)).unwrap_or_else(|error| panic!("{error}"));
        // On a busy machine a real one may lie over it, and of two that overlap the earlier is kept.
        let is_it = |event: &Event| matches!(event, Event::Gap(gap) if gap.start_ns <= late.due_ns && gap.start_ns + gap.duration_ns > late.due_ns);
        assert!(last.iter().any(is_it), "{last:?}");
    }

    #[test]
    fn tasks_that_the_counters_cannot_follow_are_refused() {
        for (workload, named) in
            [(Workload::Processes(vec![std::process::id()]), "pid"), (Workload::Comm("job".into()), "comm")]
        {
            let config = Config { source: SourceChoice::Counters, workload, ..Config::default() };
            match Collector::start(&Root::host(), config) {
                Err(Error::Option { option, why }) => {
                    assert!(option == named && why.contains("cannot follow"), "{why}")
                }
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("--{named} was left out unsaid"),
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_is_told_of_before_the_window_in_which_it_was() {
        let config = Config { source: SourceChoice::Counters, ..Config::default() };
        let mut collector = Collector::start(&Root::host(), config).unwrap_or_else(|error| panic!("{error}"));
        // As if it had been an hour behind until now.
        collector.wall_clock.told.realtime_ns -= 3_600_000_000_000;
        let events = collector.next_window(&AtomicBool::new(true)).unwrap_or_else(|error| panic!("{error}"));
        let told = events
            .iter()
            .position(|event| matches!(event, Event::Clock(change) if change.set_by_ns() > 3_599_000_000_000));
        let window = events.iter().position(|event| matches!(event, Event::Window(_)));
        assert!(told.is_some() && told < window, "{events:?}");
        let later = collector.next_window(&AtomicBool::new(true)).unwrap_or_else(|error| panic!("{error}"));
        assert!(!later.iter().any(|event| matches!(event, Event::Clock(_))), "once: {later:?}");
    }

    /// The table takes a tenth of a second and some megabytes on a distribution's kernel.
    #[test]
    fn the_kernel_s_names_are_read_once_for_the_ledger_and_the_watch_for_raisers() {
        const TEST: &str = "the_kernel_s_names_are_read_once_for_the_ledger_and_the_watch_for_raisers";
        // A loop makes the watch lay gaps over the tapes from its start on.
        let was_there = surefoot_inloop::directory().exists();
        let polls = surefoot_inloop::Loop::open("names", Duration::from_millis(1));
        let who = WhoConfig { cpus: vec![CpuId(0)], kernel_stacks: true, user_stacks: true, ..WhoConfig::default() };
        LOADED.set(0);
        let mut collector = match Collector::start(&Root::host(), Config { who: Some(who), ..Config::default() }) {
            Ok(collector) => collector,
            Err(error) => return not_run(TEST, &error.to_string()),
        };
        drop(polls);
        if !was_there {
            // Stays if another test has made a loop meanwhile.
            let _ = std::fs::remove_dir(surefoot_inloop::directory());
        }
        assert_eq!(LOADED.get(), 1);
        let sharers = collector.source.traced().map(|traced| traced.tapes.names().kernel().sharers());
        assert_eq!(sharers, Some(3), "the ledger's names, the watch's names, and those of its kernel stacks");
    }
}
