//! Seeded runs of the engine with the real code for Slurm, before a made-up cluster that lies and lags, and whose nodes people drain, resume
//! and fill with jobs at any moment.
//!
//! After each while it is checked: no step counts as done without an observation that shows its effect; no step that would stop work had its
//! effect on a node that was in service or had a job; a drain of someone else is never lifted, replaced or evicted from; no two cases touch one
//! host; no limit is exceeded; no node is left drained without an open case. When the faults are over every case comes to its end.

mod cluster;

use super::faults::flaky::Flaky;
use super::faults::random::Random;
use super::hands::{alert, seen};
use cluster::{Cluster, is_ours};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use surefoot_model::{Alert, Case, CaseState, Observed, StepState};
use surefoot_remedy::act::{Act, Commands, Drainer, Hands, HandsConfig, Order, Outcome, PriorAttempt, Slurm};
use surefoot_remedy::decide::{Request, request};
use surefoot_remedy::engine::{Begin, Core, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::{Casebook, Step};

/// How many runs the suite makes; `SUREFOOT_SOAK` says otherwise, and `SUREFOOT_FAULT_SEED` runs one seed alone.
const RUNS: u64 = 200;
const HOSTS: u64 = 4;
const BASE_NS: u64 = 1_800_000_000 * 1_000_000_000;
const TICK: Duration = Duration::from_secs(10);
/// Turns with faults, and those that everything may then take to end: closing steps wait up to an hour for their next attempt.
const FAULTS: u64 = 720;
const END: u64 = FAULTS + 6_000;

/// What must have happened in some run: others would prove nothing.
const HAPPENED: [&str; 12] = [
    "person drained",
    "person drained under jobs",
    "person resumed our drain",
    "person resumed",
    "drained after a wait",
    "drained by another",
    "left out",
    "step withheld: not empty any more",
    "step that would stop work done",
    "step whose outcome nobody saw",
    "controller killed during a step",
    "case returned",
];

/// The steps of the engine, done to the made-up cluster.
struct World {
    hands: Hands,
    cluster: Arc<Mutex<Cluster>>,
    random: Mutex<Random>,
    done: Mutex<BTreeMap<String, u32>>,
    violation: Mutex<Option<String>>,
    seen: Mutex<BTreeSet<&'static str>>,
}

impl World {
    fn note(&self, what: &'static str) {
        self.seen.lock().unwrap().insert(what);
    }

    fn violate(&self, why: String) {
        self.violation.lock().unwrap().get_or_insert(why);
    }
}

impl Act for World {
    fn dry_run(&self, _: &Order) -> String {
        String::new()
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        if matches!(order.step, Step::Recheck | Step::Drain | Step::Return) {
            let outcome = self.hands.run(order, stop);
            match &outcome {
                Outcome::Done { observed: Observed::Empty { taken_out_by, .. }, .. } => {
                    let node = self.cluster.lock().unwrap().nodes[&order.host].clone();
                    if !node.jobs.is_empty() || node.drained.is_none() {
                        self.violate(format!("the drain of case {} is done, and the node is {node:?}", order.case));
                    }
                    if !order.memo.is_empty() {
                        self.note("drained after a wait");
                    }
                    if !taken_out_by.is_empty() {
                        self.note("drained by another");
                    }
                }
                Outcome::Done { observed: Observed::LeftOut { .. }, .. } => self.note("left out"),
                _ => {}
            }
            return outcome;
        }
        if let Err(stopped) = self.hands.still_empty(order, stop) {
            self.note("step withheld: not empty any more");
            return stopped;
        }
        let node = self.cluster.lock().unwrap().nodes[&order.host].clone();
        if order.is_after_drain && (node.drained.is_none() || !node.jobs.is_empty()) {
            self.violate(format!("'{}' of case {} was done to {}: {node:?}", order.step, order.case, order.host));
        }
        self.note("step that would stop work done");
        let count = {
            let mut done = self.done.lock().unwrap();
            let count = done.entry(order.token.clone()).or_default();
            *count += 1;
            *count
        };
        if count > 1 {
            self.violate(format!("'{}' of case {} was done twice by one attempt", order.step, order.case));
        }
        match self.random.lock().unwrap().below(10) {
            0 => Outcome::Failed { detail: "not now".into(), memo: String::new(), is_passing: true },
            1 => {
                self.note("step whose outcome nobody saw");
                Outcome::done(Observed::Unobserved { why: "nobody looked".into() }, "")
            }
            _ => Outcome::done(seen("repaired"), ""),
        }
    }

    fn find(&self, order: &Order) -> PriorAttempt {
        match order.step {
            Step::Recheck | Step::Drain | Step::Return | Step::Stress(_) => PriorAttempt::MayRepeat,
            _ if self.done.lock().unwrap().contains_key(&order.token) => {
                PriorAttempt::Effect { observed: seen("found"), memo: String::new() }
            }
            _ => PriorAttempt::MayRepeat,
        }
    }
}

struct Run {
    random: Random,
    world: World,
    book: MemoryBook,
    flaky: Flaky,
    policies: Policies,
    clock: Arc<AtomicU64>,
    core: Core,
    generation: u64,
    /// Attempts under way, with the turn in which each is made.
    begun: Vec<(u64, Begin)>,
    settings: Settings,
    out_max: usize,
    accepts_unobserved: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed);
        let cluster = Arc::new(Mutex::new(Cluster::new(HOSTS, seed ^ 0x5eed)));
        let asked = Arc::clone(&cluster);
        let commands = Commands::made_up(move |name, words| asked.lock().unwrap().answer(name, words));
        let slurm = Slurm { commands, requeues_jobs: random.permille(300), ..Slurm::default() };
        let hands = Hands::new(HandsConfig {
            drainers: [("web".to_owned(), Drainer::Slurm(slurm))].into(),
            ..HandsConfig::default()
        });
        let out_max = 1 + random.below(2) as usize;
        let accepts_unobserved = random.permille(200);
        let steps = *random.of(&[
            r#"["recheck", "drain", "run:/repair", "return"]"#,
            r#"["drain", "recheck", "run:/repair", "stress:1m", "recheck", "return"]"#,
            r#"["drain", "stress:1m", "run:/repair", "return"]"#,
        ]);
        let unobserved = if accepts_unobserved { "unobserved = \"accept\"\n" } else { "" };
        let text = format!(
            "[[policy]]\nservice = \"web\"\nsteps = {steps}\nhosts_at_once = {out_max}\nper_hour = 60\ncool_down = \"10m\"\n\
             retry = {{ attempts = 3, back_off = \"20s\" }}\nrecheck_within = \"2m\"\n{unobserved}"
        );
        let policies = Policies::parse(&text, "p").unwrap();
        let clock = Arc::new(AtomicU64::new(BASE_NS));
        let ticks = Arc::clone(&clock);
        let book = MemoryBook::new(Arc::new(move || ticks.load(Ordering::Relaxed)));
        let flaky = Flaky::new(book.clone(), seed);
        let settings = Settings::with_lease(Duration::from_secs(60));
        let core = Core::new(Box::new(flaky.clone()), "c/0".into(), settings.clone(), Arc::default());
        let world = World {
            hands,
            cluster,
            random: Mutex::new(Random::new(seed ^ 0xac7)),
            done: Mutex::default(),
            violation: Mutex::default(),
            seen: Mutex::default(),
        };
        let (generation, begun) = (0, Vec::new());
        Run {
            random,
            world,
            book,
            flaky,
            policies,
            clock,
            core,
            generation,
            begun,
            settings,
            out_max,
            accepts_unobserved,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for turn in 0..END {
            let is_faulty = turn < FAULTS;
            self.clock.fetch_add(TICK.as_nanos() as u64, Ordering::Relaxed);
            self.world.cluster.lock().unwrap().pass(is_faulty);
            self.alerts(is_faulty);
            self.people(is_faulty);
            self.turn(turn, is_faulty);
            let cases = self.book.cases(false, usize::MAX).unwrap();
            self.check(&cases).map_err(|why| format!("turn {turn}: {why}"))?;
            if !is_faulty && cases.iter().all(|case| !case.state.is_open()) {
                return self.check_end(&cases);
            }
        }
        let open: Vec<Case> = self.book.cases(true, usize::MAX).unwrap();
        Err(format!("{} cases do not end: {:#?}", open.len(), open.first()))
    }

    fn alerts(&mut self, is_faulty: bool) {
        for host in 0..HOSTS {
            let is_firing = match (is_faulty, self.random.below(1_000)) {
                (true, 0..8) => true,
                (true, 8..16) | (false, _) => false,
                _ => continue,
            };
            let since_realtime_ns = self.clock.load(Ordering::Relaxed);
            let told = Alert { is_firing, since_realtime_ns, ..alert(&format!("h{host}")) };
            self.book.take(&[told]).unwrap();
        }
    }

    fn people(&mut self, is_faulty: bool) {
        for case in self.book.cases(true, usize::MAX).unwrap() {
            let asked = match (case.state, self.random.below(1_000)) {
                (CaseState::WithPerson, 0..100) => Request::Approve,
                (CaseState::Paused, 0..200) => Request::Resume,
                (CaseState::WithPerson | CaseState::Paused, _) => continue,
                (_, 0..4) if is_faulty => Request::Cancel,
                (_, 4..8) if is_faulty => Request::Pause,
                _ => continue,
            };
            let now_ns = self.clock.load(Ordering::Relaxed);
            if let Ok((case, entry)) = request(&case, asked, "user anna", "", now_ns) {
                self.book.update(&case, &entry).unwrap();
            }
        }
    }

    fn turn(&mut self, turn: u64, is_faulty: bool) {
        if is_faulty && self.random.permille(30) {
            self.flaky.set(*self.random.of(&[0, 0, 300]), *self.random.of(&[0, 0, 200]));
        } else if !is_faulty {
            self.flaky.set(0, 0);
        }
        let now = TICK * turn as u32;
        let is_killed = is_faulty && self.random.permille(15);
        for (due, begin) in std::mem::take(&mut self.begun) {
            if due > turn {
                self.begun.push((due, begin));
            } else if !begin.stop.load(Ordering::Acquire) {
                let ended = begin.attempt.make(&self.world, &begin.stop);
                // Killed between the effect and its record.
                if !is_killed {
                    self.core.note_end(begin.attempt.order.case, begin.attempt.fence, Some(ended));
                } else {
                    self.world.note("controller killed during a step");
                }
            } else {
                self.core.note_end(begin.attempt.order.case, begin.attempt.fence, None);
            }
        }
        if is_killed {
            self.generation += 1;
            self.begun.clear();
            let (book, name) = (Box::new(self.flaky.clone()), format!("c/{}", self.generation));
            self.core = Core::new(book, name, self.settings.clone(), Arc::default());
        }
        loop {
            let (begun, is_more) = self.core.round(&self.policies, now);
            for begin in begun {
                let wait = if begin.attempt.is_in_doubt { 9 } else { self.random.below(4) };
                self.begun.push((turn + 1 + wait, begin));
            }
            if !is_more {
                return;
            }
        }
    }

    fn check(&self, cases: &[Case]) -> Result<(), String> {
        let cluster = self.world.cluster.lock().unwrap();
        if let Some(why) = self.world.violation.lock().unwrap().clone().or_else(|| cluster.violation.clone()) {
            return Err(why);
        }
        for case in cases {
            for step in case.steps.iter().filter(|step| step.state == StepState::Done) {
                let has_seen =
                    step.observed.as_ref().is_some_and(|seen| seen.shows_effect() || self.accepts_unobserved);
                let is_empty = match (&*step.step, &step.observed) {
                    ("drain", Some(Observed::Empty { work_count, allocated_cpus, .. })) => {
                        (*work_count, *allocated_cpus) == (0, Some(0))
                    }
                    ("drain", _) => false,
                    ("return", Some(Observed::InService { .. } | Observed::LeftOut { .. })) => true,
                    ("return", _) => false,
                    _ => true,
                };
                // A recheck that finds the fault gone says so in words.
                if step.step != "recheck" && (!has_seen || !is_empty) {
                    return Err(format!("'{}' of case {} is done, observed: {:?}", step.step, case.id, step.observed));
                }
            }
        }
        let begun: Vec<&Case> =
            cases.iter().filter(|case| case.state.is_open() && case.began_realtime_ns != 0).collect();
        let hosts: BTreeSet<&str> = begun.iter().map(|case| &*case.host).collect();
        if hosts.len() != begun.len() {
            return Err("two cases touch one host".into());
        }
        let ours = cluster.nodes.iter().filter(|(_, node)| node.drained.as_ref().is_some_and(|reason| is_ours(reason)));
        let ours: Vec<&String> = ours.map(|(host, _)| host).collect();
        if ours.len() > self.out_max {
            return Err(format!("{ours:?} are out, allowed are {}", self.out_max));
        }
        match ours.iter().find(|host| !begun.iter().any(|case| case.is_drained && case.host == ***host)) {
            Some(host) => Err(format!("{host} is drained, and no open case knows: {:#?}", cases.last())),
            None => Ok(()),
        }
    }

    fn check_end(&self, cases: &[Case]) -> Result<(), String> {
        if cases.iter().any(|case| case.state == CaseState::Returned) {
            self.world.note("case returned");
        }
        let cluster = self.world.cluster.lock().unwrap();
        match cluster.nodes.iter().find(|(_, node)| node.drained.as_ref().is_some_and(|reason| is_ours(reason))) {
            Some((host, node)) => Err(format!("{host} is left drained: {node:?}")),
            None => Ok(()),
        }
    }
}

#[test]
fn no_step_is_done_without_its_observed_post_condition_whatever_people_and_schedulers_do() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("SUREFOOT_FAULT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SUREFOOT_SOAK").unwrap_or(RUNS),
    };
    let (mut violations, mut happened, mut case_count) = (Vec::new(), BTreeSet::new(), 0);
    for seed in seeds.clone() {
        let mut run = Run::new(seed);
        if let Err(why) = run.run() {
            violations.push(format!("seed {seed}: {why}"));
        }
        case_count += run.book.cases(false, usize::MAX).unwrap().len();
        happened.extend(run.world.seen.lock().unwrap().iter().copied());
        happened.extend(run.world.cluster.lock().unwrap().seen.iter().copied());
    }
    let runs = seeds.end - seeds.start;
    println!("{runs} runs, {case_count} cases, {} violations", violations.len());
    assert!(
        violations.is_empty(),
        "{} violations\n{}",
        violations.len(),
        violations[..violations.len().min(5)].join("\n")
    );
    if runs >= RUNS {
        let missing: Vec<_> = HAPPENED.iter().filter(|what| !happened.contains(*what)).collect();
        assert!(missing.is_empty(), "in no run: {missing:?}");
    }
}
