//! `surefoot remedy agent`.

use super::place::ServerOptions;
use crate::spaces;
use anyhow::Context;
use clap::Args;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::units::{counted, parse_duration};
use surefoot_controller::{Accepted, Agent, Exchange, HostFindings, OrderAnswer, Recorded};
use surefoot_daemon::rooms::remedy::checks;
use surefoot_hostfs::namespaces::Namespaces;
use surefoot_hostfs::{Root, roles, signals};
use surefoot_model::{Health, one_line};
use surefoot_outside::own::Server;
use surefoot_remedy::Act;
use surefoot_remedy::act::{Hands, HandsConfig, machine};
use surefoot_remedy::checks::{CheckFile, Checks};

/// Where the agent keeps what is known of orders, unless another folder is named.
const STATE: &str = "/var/lib/surefoot/agent";
/// How soon it sees that it is to end, that a check has ended or that an order is done.
const PAUSE: Duration = Duration::from_millis(200);
/// The first word comes within this time, and the second within a period of it: hosts that start together soon speak apart.
const FIRST_WORD_MAX: Duration = Duration::from_secs(2);
/// The shortest period.
const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Jitter of a report as a share of the period: hosts that start together drift apart.
const JITTER: f64 = 0.1;

#[derive(Args)]
pub struct AgentOptions {
    #[command(flatten)]
    server: ServerOptions,
    /// The host's name, as alerts and schedulers have it [default: the node name]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The service that the host works for
    #[arg(long, default_value = "")]
    service: String,
    /// The health file of the host's watch; the agent's own checks are told without one, too
    #[arg(long, value_name = "FILE", default_value = Health::FILE)]
    health: PathBuf,
    /// The file of periodic checks, TOML; without it the built-in checks
    #[arg(long, value_name = "FILE")]
    checks: Option<PathBuf>,
    /// Run no checks: what the watch finds is told alone
    #[arg(long, conflicts_with = "checks")]
    no_checks: bool,
    /// Also do what the controller orders: restart units, reset interfaces, tune reporting, offline pages, stress, restart the host.
    /// Without it the agent changes nothing, and gives up every privilege
    #[arg(long)]
    orders: bool,
    /// What a stress tests at most, MiB [default: what the policies say, else what is free]
    #[arg(long, value_name = "MIB", requires = "orders")]
    stress_mebibytes: Option<u64>,
    /// The folder that keeps what is known of orders
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Journal of what it did by order [default: /var/lib/surefoot/deeds.jsonl]
    #[arg(long, value_name = "FILE", requires = "orders")]
    journal: Option<PathBuf>,
    /// How often the controller is told; a tenth earlier or later by chance
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    period: Duration,
    /// Tell once, and end
    #[arg(long)]
    once: bool,
}

/// The controller, over HTTP.
struct Controller(Server);

impl Exchange for Controller {
    fn tell(&self, findings: &HostFindings) -> Result<Accepted, String> {
        self.0.post("/api/v1/findings", findings).map_err(|error| format!("{:#}", anyhow::Error::new(error)))
    }

    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String> {
        self.0.post_or_refused("/api/v1/answers", answer).map_err(|error| format!("{:#}", anyhow::Error::new(error)))
    }
}

pub fn run(options: &AgentOptions) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    if options.orders {
        spaces::check_orders(Namespaces::of_this_process())?;
    }
    let server = options.server.server()?;
    let server = Controller(if options.orders { server.obeyed()? } else { server });
    let host = options.host.clone().unwrap_or_else(super::node_name);
    let mut checks = checks_of(options)?;
    std::fs::create_dir_all(&options.state).with_context(|| format!("--state {}", options.state.display()))?;
    let record = crate::args::record(&Root::host(), options.journal.as_deref())?;
    let machine = machine::of(&Root::host());
    // Before a thread is started and the first word of a stranger is read.
    roles::of_agent(&Root::host(), options.orders, &options.state).context("privileges that an agent does not need")?;
    let lost = Arc::new(AtomicU64::new(0));
    let act: Option<Arc<dyn Act>> = options.orders.then(|| {
        let (surefoot, stress_mebibytes) = (std::env::current_exe().ok(), options.stress_mebibytes);
        let config = HandsConfig { own_host: host.clone(), surefoot, stress_mebibytes, ..HandsConfig::default() };
        let hands = Arc::new(Hands::new(config));
        Arc::new(Recorded::of_agent(hands, record.clone(), &host, Arc::clone(&lost))) as Arc<dyn Act>
    });
    let mut agent = Agent::new(&host, &options.service, machine.clone(), options.health.clone(), act, &options.state)?;
    if !machine.is_known() {
        surefoot_console::tell!(
            "surefoot remedy agent: this machine has no ID that can be read (/etc/machine-id, SMBIOS UUID): another machine with the name \
             {host} cannot be told from it"
        );
    }
    let of_another = agent.orders_of_another_count();
    if of_another > 0 {
        let orders = counted(of_another as u64, "order", "orders");
        surefoot_console::tell!(
            "surefoot remedy agent: {orders} of another machine in --state {}: left out, and not answered",
            options.state.display()
        );
    }
    let unwatched = agent.why_unwatched();
    if let Some(why) = &unwatched {
        surefoot_console::tell!("surefoot remedy agent: --health {why}");
    }
    if options.once {
        anyhow::ensure!(
            unwatched.is_none() || !checks.is_empty(),
            "neither a watch nor a check says anything of this host: nothing was reported"
        );
        checks.once();
        agent.round(&server, checks.found().as_deref()).map_err(anyhow::Error::msg)?;
    } else {
        let does = if options.orders { "does what it orders" } else { "changes nothing" };
        let with = counted(checks.len() as u64, "check", "checks");
        surefoot_console::tell!("surefoot remedy agent: reports {host}, with {with}, and {does}");
        let journal = Lost { count: &lost, path: record.path(), told: 0 };
        go_on(&mut agent, &server, &mut checks, journal, options.period.max(PERIOD_MIN), stop);
    }
    agent.stop();
    Ok(Outcome::Done)
}

/// Deeds that could not be recorded.
struct Lost<'a> {
    count: &'a AtomicU64,
    path: PathBuf,
    told: u64,
}

impl Lost<'_> {
    /// What to say of those that are new.
    fn news(&mut self) -> Option<String> {
        let count = self.count.load(Ordering::Relaxed);
        let is_new = std::mem::replace(&mut self.told, count) != count;
        is_new.then(|| {
            let deeds = counted(count, "deed", "deeds");
            format!("{deeds} not recorded in {} since the start; the controller has the outcomes", self.path.display())
        })
    }
}

/// Tells the controller, again and again, until it is to end.
fn go_on(
    agent: &mut Agent,
    server: &dyn Exchange,
    checks: &mut Checks,
    mut lost: Lost<'_>,
    period: Duration,
    stop: &AtomicBool,
) {
    let begun = Instant::now();
    let mut due = period.min(FIRST_WORD_MAX).mul_f64(chance());
    let (mut is_first, mut is_refused, mut were_known) = (true, false, checks.are_known());
    let (mut said, mut noted) = (String::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        checks.turn();
        if let Some(words) = lost.news() {
            surefoot_console::tell!("surefoot remedy agent: {words}");
        }
        let are_known = checks.are_known();
        // What the watch finds does not wait for the checks, which are told as soon as each has ended.
        let is_due = begun.elapsed() >= due || are_known && !were_known && !is_first;
        if is_due || !is_refused && agent.has_answer() {
            let found = checks.found();
            let told = match are_known {
                true => agent.round(server, found.as_deref()),
                false => agent.early_round(server, found.as_deref()),
            };
            were_known = are_known;
            match &told {
                // Said once, and tried with each period.
                Err(why) if *why != said => {
                    surefoot_console::tell!("surefoot remedy agent: {why}; it is tried again");
                    said = why.clone();
                }
                Err(_) => {}
                Ok(accepted) => {
                    if is_refused {
                        surefoot_console::tell!("surefoot remedy agent: the controller answers again");
                    }
                    said.clear();
                    for reason in accepted.reasons.iter().filter(|reason| !noted.contains(*reason)) {
                        surefoot_console::tell!("surefoot remedy agent: the controller: {}", one_line(reason));
                    }
                    noted = accepted.reasons.clone();
                }
            }
            is_refused = told.is_err();
            let share = if is_first { chance() } else { 1.0 + JITTER * (2.0 * chance() - 1.0) };
            due = begun.elapsed() + period.mul_f64(share);
            is_first = false;
        }
        std::thread::sleep(PAUSE.min(period));
    }
}

/// From 0 to 1, by the keys that the standard library draws for its maps.
fn chance() -> f64 {
    let drawn = RandomState::new().hash_one(0);
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

/// The checks that the options choose.
fn checks_of(options: &AgentOptions) -> anyhow::Result<Checks> {
    let file = match &options.checks {
        Some(path) => CheckFile::read(path)?,
        None => CheckFile::default(),
    };
    let checks = if options.no_checks { Vec::new() } else { checks(&file, &Root::host()) };
    Ok(Checks::new(checks, RandomState::new().hash_one(1)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_remedy::checks::{Check, Rule, Said};

    /// A check may take its first 30 seconds; a critical finding of the watch does not wait for it.
    #[test]
    fn the_first_word_does_not_wait_for_the_checks() {
        struct Told<'a>(&'a AtomicBool, std::sync::Mutex<Vec<HostFindings>>);
        impl Exchange for Told<'_> {
            fn tell(&self, findings: &HostFindings) -> Result<Accepted, String> {
                self.1.lock().map_err(|error| error.to_string())?.push(findings.clone());
                self.0.store(true, Ordering::Relaxed);
                Err("one is enough".into())
            }
            fn answer(&self, _: &OrderAnswer) -> Result<bool, String> {
                Ok(true)
            }
        }
        let home = tempfile::tempdir().unwrap();
        let mut agent =
            Agent::new("n1", "", Default::default(), home.path().join("health.json"), None, home.path()).unwrap();
        let hour = Duration::from_secs(3600);
        let (period, time_limit, warning, critical) = (hour, hour, hour, hour);
        let slow = Rule { name: "slow".into(), program: None, period, time_limit, warning, critical };
        let hangs = Check::new(&slow, |stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
            }
            Said::unknown("it was ended")
        });
        let mut checks = Checks::new(vec![hangs], 1);
        let stop = AtomicBool::new(false);
        let told = Told(&stop, std::sync::Mutex::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let begun = Instant::now();
                while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(PAUSE);
                }
                stop.store(true, Ordering::Relaxed);
            });
            let lost = AtomicU64::new(0);
            let lost = Lost { count: &lost, path: PathBuf::new(), told: 0 };
            go_on(&mut agent, &told, &mut checks, lost, Duration::from_secs(3600), &stop);
        });
        assert_eq!(told.1.lock().unwrap().len(), 1);
    }

    #[test]
    fn deeds_that_could_not_be_recorded_are_told_when_there_are_more() {
        let count = AtomicU64::new(0);
        let mut lost = Lost { count: &count, path: "/j".into(), told: 0 };
        assert_eq!(lost.news(), None);
        count.store(2, Ordering::Relaxed);
        let said = "2 deeds not recorded in /j since the start; the controller has the outcomes";
        assert_eq!((lost.news().as_deref(), lost.news()), (Some(said), None));
    }

    #[test]
    fn chance_is_spread() {
        let drawn: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(drawn.iter().all(|one| (0.0..1.0).contains(one)));
        assert!(drawn.iter().any(|one| *one < 0.5) && drawn.iter().any(|one| *one > 0.5));
    }
}
