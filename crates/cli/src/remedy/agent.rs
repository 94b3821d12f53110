//! `surefoot remedy agent`.

use super::place::ServerOptions;
use crate::spaces;
use anyhow::{Context, ensure};
use clap::Args;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_console::units::{counted, parse_time};
use surefoot_controller::rounds::{Lost, OverHttp, Rounds};
use surefoot_controller::{Agent, Recorded};
use surefoot_daemon::rooms::remedy::checks;
use surefoot_hostfs::Root;
use surefoot_hostfs::namespaces::Namespaces;
use surefoot_model::Health;
use surefoot_remedy::Act;
use surefoot_remedy::act::{Hands, HandsConfig, machine};
use surefoot_remedy::checks::{CheckFile, Checks};
use surefoot_sys::{roles, signals};

/// Where the agent keeps what is known of orders, unless another folder is named.
const STATE: &str = "/var/lib/surefoot/agent";

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
    #[arg(long, value_name = "MIB")]
    stress_mebibytes: Option<u64>,
    /// The folder that keeps what is known of orders
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Journal of what it did by order [default: /var/lib/surefoot/deeds.jsonl]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// How often the controller is told; a tenth earlier or later by chance
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    period: Duration,
    /// Tell once, and end
    #[arg(long)]
    once: bool,
}

pub fn run(options: &AgentOptions) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    let is_quiet = options.orders || options.journal.is_none();
    ensure!(is_quiet, "--journal goes with --orders: without it the agent does nothing that is recorded");
    let is_quiet = options.orders || options.stress_mebibytes.is_none();
    ensure!(is_quiet, "--stress-mebibytes goes with --orders: without it the agent stresses nothing");
    if options.orders {
        spaces::check_orders(Namespaces::of_this_process())?;
    }
    let server = options.server.server()?;
    let server = OverHttp(if options.orders { server.obeyed()? } else { server });
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
    let agent = Agent::new(&host, &options.service, machine.clone(), options.health.clone(), act, &options.state)?;
    let mut agent = agent.on(machine::facts(&Root::host()));
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
        ensure!(
            unwatched.is_none() || !checks.is_empty(),
            "neither a watch nor a check says anything of this host: nothing was reported"
        );
        checks.once();
        agent.round(&server, checks.found().as_deref()).map_err(anyhow::Error::msg)?;
    } else {
        let does = if options.orders { "does what it orders" } else { "changes nothing" };
        let with = counted(checks.len() as u64, "check", "checks");
        surefoot_console::tell!("surefoot remedy agent: reports {host}, with {with}, and {does}");
        let say = &mut |words: &str| surefoot_console::tell!("surefoot remedy agent: {words}");
        let lost = Lost::new(&lost, record.path());
        Rounds { exchange: &server, lost, period: options.period, stop, say }.run(&mut agent, &mut checks);
    }
    agent.stop();
    Ok(Outcome::Done)
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
