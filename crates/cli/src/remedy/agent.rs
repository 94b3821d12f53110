//! `surefoot remedy agent`.

use super::place::{Server, ServerOptions};
use crate::exit::Outcome;
use crate::units::parse_duration;
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_daemon::fleet::{Accepted, Agent, Exchange, HostFindings, OrderAnswer};
use surefoot_hostfs::signals;
use surefoot_model::Health;
use surefoot_remedy::Act;
use surefoot_remedy::act::{Hands, HandsConfig};

/// Where the agent keeps what is known of orders, unless another folder is named.
const STATE: &str = "/var/lib/surefoot/agent";
const PAUSE: Duration = Duration::from_millis(100);
/// The shortest period.
const PERIOD_MIN: Duration = Duration::from_millis(100);

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
    /// The health file of the host's watch
    #[arg(long, value_name = "FILE", default_value = Health::FILE)]
    health: PathBuf,
    /// Also do what the controller orders: restart units, reset interfaces, tune reporting, offline pages, stress, restart the host.
    /// Without it the agent changes nothing
    #[arg(long)]
    orders: bool,
    /// The folder that keeps what is known of orders
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// How often the controller is told
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    period: Duration,
    /// Tell once, and end
    #[arg(long)]
    once: bool,
}

impl Exchange for Server {
    fn tell(&self, findings: &HostFindings) -> Result<Accepted, String> {
        self.post("/api/v1/findings", findings).map_err(|error| format!("{error:#}"))
    }

    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String> {
        self.post_or_refused("/api/v1/answers", answer).map_err(|error| format!("{error:#}"))
    }
}

pub fn run(options: &AgentOptions) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    let server = Server::new(&options.server)?;
    let server = if options.orders { server.obeyed() } else { server };
    let host = options.host.clone().unwrap_or_else(super::node_name);
    let act: Option<Arc<dyn Act>> = options.orders.then(|| {
        let surefoot = std::env::current_exe().ok();
        Arc::new(Hands::new(HandsConfig { own_host: host.clone(), surefoot, ..HandsConfig::default() })) as Arc<dyn Act>
    });
    std::fs::create_dir_all(&options.state).with_context(|| format!("--state {}", options.state.display()))?;
    let mut agent = Agent::new(&host, &options.service, options.health.clone(), act, &options.state)?;
    let mut was_refused = false;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let told = agent.round(&server, &[]);
        let is_refused = told.is_err();
        match told {
            Err(why) if options.once => anyhow::bail!("{why}"),
            // Said once, and tried with each period.
            Err(why) if !was_refused => crate::people::tell!("surefoot remedy agent: {why}; it is tried again"),
            Ok(_) if was_refused => crate::people::tell!("surefoot remedy agent: the controller answers again"),
            _ => {}
        }
        was_refused = is_refused;
        if options.once {
            break;
        }
        let period = options.period.max(PERIOD_MIN);
        while begun.elapsed() < period && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE.min(period));
        }
    }
    agent.stop();
    Ok(Outcome::Done)
}
