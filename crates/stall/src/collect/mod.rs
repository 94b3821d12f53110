//! The collector: closes a window every second and turns it into events.

pub(crate) mod cost;
mod ebpf;
mod sleeper;
mod who;

use crate::collect::cost::OwnCost;
use crate::collect::ebpf::EbpfSource;
use crate::collect::sleeper::Sleepers;
use crate::collect::who::WhoSide;
use crate::config::{Config, SourceChoice, allowed_cores, housekeeping_core};
use crate::gap::judge::Judge;
use crate::gap::pending::{Pending, found, hidden_cause, keep_longest, merge, stopped_together};
use crate::gap::tapes::Tapes;
use crate::gap::witness::{SETTLING_NS, Witness};
use crate::ledger::Hidden;
use crate::ledger::kernel_counters;
use crate::spin::Jump;
use crate::spin::sentinel::Sentinel;
use crate::status::{self, Facts, Tracing};
use crate::{Error, host};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{Capability, CpuId, Event, Gap, GapSource, HostDescription, Notice, SelfCost, Verdict, Window};
use surefoot_probes::{Options, Probes};

/// How often late timers, tapes and counters are looked at within a window.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Turns of the tape that are kept of each core: 128 KiB.
const KEPT_TURNS: usize = 1 << 13;

enum Source {
    Ebpf(Box<EbpfSource>),
    Counters(Sleepers),
}

impl Source {
    fn probes(&self) -> Option<&Probes> {
        match self {
            Source::Ebpf(ebpf) => Some(ebpf.probes()),
            Source::Counters(_) => None,
        }
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
    judge: Judge,
    sentinel: Option<(Sentinel, TscClock)>,
    pending: Vec<Pending>,
    start_ns: u64,
    stat: Stat,
    interrupts: Interrupts,
    online: BTreeSet<CpuId>,
    charged_until_ns: BTreeMap<CpuId, u64>,
    cost: OwnCost,
    dropped_before: u64,
}

impl Collector {
    /// Starts watching.
    ///
    /// # Errors
    /// [`Error::Core`] and [`Error::Option`] for a wish that cannot be met; [`Error::Probes`] when eBPF was demanded
    /// and is not to be had (with [`SourceChoice::Best`] the kernel's counters are used instead and
    /// [`HostDescription::missing`] says so), or when raisers are to be named, which nothing less can; [`Error::Host`]
    /// when not even /proc can be read.
    pub fn start(root: &Root, config: Config) -> Result<Self, Error> {
        let config = config.checked(root)?;
        let identity = Identity::read(root);
        let housekeeping =
            config.sentinel.map(|sentinel| sentinel.cpu).or_else(|| housekeeping_core(&config.cpus, root));
        let probes = attach(&config)?;
        let tracing = match &probes {
            Ok(probes) => Tracing::Attached { flavour: probes.flavour(), missing: probes.missing().to_vec() },
            Err(refused) => refused.clone(),
        };
        let witness = Witness::open(root, &identity, housekeeping.or_else(|| config.cpus.first().copied()));
        let (source, tapes, missing) = match probes {
            Ok(probes) => {
                let tapes = Tapes::new(root, &probes, &config.cpus, KEPT_TURNS);
                (Source::Ebpf(Box::new(EbpfSource::new(root, probes, &config)?)), Some(tapes), String::new())
            }
            Err(refused) => {
                let (sleepers, _) = Sleepers::start(&config.cpus, config.gap_threshold_ns);
                let line = match &refused {
                    Tracing::Refused { why, remedy } => format!("{why}; {remedy}"),
                    Tracing::Attached { .. } => String::new(),
                };
                (Source::Counters(sleepers), None, line)
            }
        };
        let source_name = match &source {
            Source::Ebpf(ebpf) => ebpf.label(),
            Source::Counters(_) => "kernel counters",
        };
        let facts = facts(root, &identity, tracing, &witness, tapes.as_ref());
        let sentinel = match config.sentinel {
            Some(chosen) => {
                let clock = TscClock::calibrate()?;
                Some((Sentinel::start(chosen, &clock, config.gap_threshold_ns)?, clock))
            }
            None => None,
        };
        let mut collector = Collector {
            host: host::describe(&identity, &config, source_name, &missing),
            capabilities: status::capabilities(&facts),
            judge: Judge::new(tapes, witness, identity.hypervisor.is_some()),
            source,
            who: None,
            sentinel,
            pending: Vec::new(),
            start_ns: clock::monotonic_ns(),
            stat: Stat::read(root)?,
            interrupts: Interrupts::read(root)?,
            online: cpus::online(root)?.into_iter().collect(),
            charged_until_ns: BTreeMap::new(),
            cost: OwnCost::default(),
            dropped_before: 0,
            root: root.clone(),
            config,
        };
        if let Some(who) = &collector.config.who {
            collector.who = Some(WhoSide::attach(root, collector.source.probes(), who, &missing)?);
        }
        if let Source::Ebpf(ebpf) = &mut collector.source {
            ebpf.restart(&collector.config.cpus);
            collector.interrupts = Interrupts::read(root)?;
        }
        collector.cost = OwnCost::start(collector.source.probes(), &collector.config.cpus);
        collector.start_ns = clock::monotonic_ns();
        collector.look();
        Ok(collector)
    }

    /// What opens the stream: the host and its capabilities.
    pub fn opening(&self) -> Vec<Event> {
        vec![Event::Host(self.host.clone()), Event::Capabilities { capabilities: self.capabilities.clone() }]
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
        let end_ns = self.start_ns + self.config.window.as_nanos() as u64;
        loop {
            let now_ns = clock::monotonic_ns();
            if now_ns >= end_ns || stop.load(Ordering::Relaxed) {
                break;
            }
            let rest = Duration::from_nanos(end_ns - now_ns);
            match (&mut self.who, self.source.probes()) {
                (Some(who), Some(probes)) => who.look_for(LOOK_EVERY.min(rest), probes),
                _ => std::thread::sleep(LOOK_EVERY.min(rest)),
            }
            self.look();
        }
        let mut events = self.close()?;
        if let (Some(who), Some(probes)) = (&mut self.who, self.source.probes()) {
            events.extend(who.events(probes));
        }
        Ok(events)
    }

    /// What closes the stream: who interrupted the watched cores, up to now, where that was asked for.
    pub fn closing(&mut self) -> Vec<Event> {
        match (&mut self.who, self.source.probes()) {
            (Some(who), Some(probes)) => vec![who.last_word(probes)],
            _ => Vec::new(),
        }
    }

    /// Reads what must not be missed between two ends of windows.
    fn look(&mut self) {
        let probes = self.source.probes();
        self.judge.look(probes);
        match &mut self.source {
            Source::Ebpf(ebpf) => {
                for late in ebpf.late_timers(&self.config.cpus) {
                    let mut found = found(GapSource::TimerLateness, late.cpu, late.due_ns, late.fired_ns, None);
                    found.tape = late.tape;
                    self.pending.push(Pending { found, while_idle: late.while_idle });
                }
            }
            Source::Counters(sleepers) => {
                for late in sleepers.take() {
                    self.pending.push(Pending {
                        found: found(GapSource::SleepLateness, late.cpu, late.due_ns, late.woke_ns, None),
                        while_idle: false,
                    });
                }
            }
        }
        if let Some((sentinel, clock)) = &mut self.sentinel {
            clock.reanchor();
            let mut jumps: Vec<Jump> = Vec::new();
            sentinel.take(&mut jumps);
            for jump in jumps {
                let (start_ns, end_ns) = (clock.ns(jump.before), clock.ns(jump.after));
                let found = found(GapSource::Sentinel, sentinel.config.cpu, start_ns, end_ns, Some(sentinel.tid));
                self.pending.push(Pending { found, while_idle: false });
            }
        }
    }

    /// Judges the gaps whose surroundings have settled.
    fn judge_settled(&mut self) -> Vec<(Gap, bool)> {
        let settled_ns = self.judge.witness().last_look_ns().saturating_sub(SETTLING_NS);
        let (ready, waiting): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.found.end_ns <= settled_ns);
        self.pending = waiting;
        let probes = self.source.probes();
        let mut ready = merge(ready);
        let watched = self.config.cpus.iter().filter(|cpu| self.online.contains(cpu)).count();
        stopped_together(&mut ready, watched);
        ready
            .into_iter()
            .map(|pending| (self.judge.judge(probes, &pending.found), pending.while_idle))
            // The sentinel is there for what nobody traces; what preempted it is in the ledger.
            .filter(|(gap, _)| gap.source != GapSource::Sentinel || gap.verdict != Verdict::Traced)
            .collect()
    }

    fn close(&mut self) -> Result<Vec<Event>, Error> {
        let judged = self.judge_settled();
        let stat = Stat::read(&self.root)?;
        let mut notices = self.notice_cores(&cpus::online(&self.root)?);
        let watched: Vec<CpuId> = self.config.cpus.iter().copied().filter(|cpu| self.online.contains(cpu)).collect();
        let hidden = self.hidden(&judged);
        let mut window = Window {
            start_ns: self.start_ns,
            end_ns: clock::monotonic_ns(),
            cores: Vec::new(),
            untimed: Vec::new(),
            completeness: Vec::new(),
            cost: SelfCost::default(),
        };
        match &mut self.source {
            Source::Ebpf(ebpf) => {
                let interrupts = ebpf.close(&watched, &mut self.judge, (&self.stat, &stat), &hidden, &mut window);
                let interrupts = interrupts?;
                window.end_ns = clock::monotonic_ns();
                ebpf.compare(&interrupts.delta(&self.interrupts), &mut window);
                self.interrupts = interrupts;
            }
            Source::Counters(_) => {
                let interrupts = Interrupts::read(&self.root)?;
                let (earlier, later) = (kernel_counters::by_core(&self.stat), kernel_counters::by_core(&stat));
                let wall_ns = window.end_ns - window.start_ns;
                for &cpu in &watched {
                    if let (Some(was), Some(is)) = (earlier.get(&cpu), later.get(&cpu)) {
                        let core = kernel_counters::core_ledger(cpu, wall_ns, &is.since(was), stat.ns(1));
                        window.cores.push(core);
                    }
                }
                window.untimed = kernel_counters::untimed(&interrupts.delta(&self.interrupts), &watched);
                self.interrupts = interrupts;
            }
        }
        self.stat = stat;
        self.start_ns = window.end_ns;
        let mut gaps: Vec<Gap> = judged.into_iter().map(|(gap, _)| gap).collect();
        let beyond = keep_longest(&mut gaps);
        self.add_cost(&mut window.cost, beyond);
        let mut events: Vec<Event> = notices.drain(..).map(Event::Notice).collect();
        events.push(Event::Window(window));
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
            if let Source::Ebpf(ebpf) = &mut self.source {
                ebpf.forget(*cpu);
            }
            notices.push(Notice { at_ns, text });
        }
        self.online = now_online;
        notices
    }

    /// What the gaps move out of the contexts they were found in, by core; no time is moved twice.
    fn hidden(&mut self, judged: &[(Gap, bool)]) -> BTreeMap<CpuId, Vec<Hidden>> {
        let mut hidden: BTreeMap<CpuId, Vec<Hidden>> = BTreeMap::new();
        for (gap, while_idle) in judged {
            let until = self.charged_until_ns.entry(gap.cpu).or_default();
            if gap.unexplained_ns == 0 || gap.start_ns < *until {
                continue;
            }
            *until = gap.start_ns + gap.duration_ns;
            hidden.entry(gap.cpu).or_default().push(Hidden {
                cause: hidden_cause(gap.verdict),
                duration_ns: gap.unexplained_ns,
                while_idle: *while_idle,
            });
        }
        hidden
    }

    fn add_cost(&mut self, cost: &mut SelfCost, gaps_beyond: u64) {
        let torn = cost.torn;
        *cost = self.cost.since(self.source.probes(), &self.config.cpus, &self.root);
        // Turns of the tape that went unread are no loss to the ledger, which the kernel side keeps.
        let mut dropped = match &self.source {
            Source::Ebpf(ebpf) => ebpf.lost_late_timers(),
            Source::Counters(sleepers) => sleepers.dropped(),
        };
        dropped += self.sentinel.as_ref().map_or(0, |(sentinel, _)| sentinel.dropped());
        cost.dropped = dropped - self.dropped_before + gaps_beyond;
        cost.torn = torn;
        self.dropped_before = dropped;
    }
}

/// The host and its capabilities, as they open a stream that has no collector: a watch for raisers alone.
///
/// # Errors
/// [`Error::Core`] for a core that is not online; [`Error::Host`] when /sys cannot be read.
pub fn opening_of(root: &Root, config: Config) -> Result<Vec<Event>, Error> {
    let host = host::describe(&Identity::read(root), &config.checked(root)?, EbpfSource::BTF, "");
    Ok(vec![Event::Host(host), Event::Capabilities { capabilities: host_capabilities(root) }])
}

/// What the host can do, found out by trying; attaches the programs for a moment.
pub fn host_capabilities(root: &Root) -> Vec<Capability> {
    let identity = Identity::read(root);
    let probes = Probes::attach(&Options::default());
    let tapes = probes.as_ref().ok().map(|probes| Tapes::new(root, probes, &[], 0));
    let tracing = match &probes {
        Ok(probes) => Tracing::Attached { flavour: probes.flavour(), missing: probes.missing().to_vec() },
        Err(error) => refusal(error),
    };
    let witness = Witness::open(root, &identity, housekeeping_core(&[], root));
    status::capabilities(&facts(root, &identity, tracing, &witness, tapes.as_ref()))
}

fn facts(root: &Root, identity: &Identity, tracing: Tracing, witness: &Witness, tapes: Option<&Tapes>) -> Facts {
    let online = cpus::online(root).unwrap_or_default();
    let allowed = allowed_cores();
    Facts {
        tracing,
        tsc_trusted: clock::trusted(root),
        tsc_missing: TscClock::calibrate_for(Duration::from_millis(1)).err(),
        hypervisor: identity.hypervisor.clone(),
        container: identity.container.as_ref().map(|container| container.name.clone()),
        smi_missing: witness.smi_missing().cloned(),
        symbols_missing: tapes.and_then(|tapes| tapes.names().symbols_missing().cloned()),
        error_reports: root.sys("devices/system/edac/mc/mc0/ce_count").exists(),
        all_cores_allowed: online.iter().all(|cpu| allowed.contains(cpu)),
    }
}

fn attach(config: &Config) -> Result<Result<Probes, Tracing>, Error> {
    let flavour = match config.source {
        SourceChoice::Counters => {
            let (why, remedy) = ("eBPF was switched off".to_owned(), "leave out --source counters".to_owned());
            return Ok(Err(Tracing::Refused { why, remedy }));
        }
        SourceChoice::Best => None,
        SourceChoice::Ebpf(flavour) => Some(flavour),
    };
    let options = Options { late_threshold_ns: config.gap_threshold_ns, workload: config.workload.clone(), flavour };
    match Probes::attach(&options) {
        Ok(probes) => Ok(Ok(probes)),
        Err(error) if flavour.is_none() => Ok(Err(refusal(&error))),
        Err(error) => Err(error.into()),
    }
}

fn refusal(error: &surefoot_probes::Error) -> Tracing {
    match error {
        surefoot_probes::Error::Unsupported { why, remedy } => {
            Tracing::Refused { why: why.clone(), remedy: remedy.clone() }
        }
        other => Tracing::Refused { why: other.to_string(), remedy: "report this with the kernel's version".into() },
    }
}
