//! The options of `surefoot disturb length`.

use clap::Args;
use std::time::Duration;
use surefoot_console::units::{parse_ns, parse_time};
use surefoot_disturb::disturbance::{Method, Phase, Spec, What};
use surefoot_disturb::length::Sweep;
use surefoot_model::CpuId;

/// What help says at its end.
pub const HELP: &str = "It stops one core of this machine again and again. It is refused on a host that looks as if it were in use, and \
                        everything ends with this process, also when that is killed. Real SMIs are not raised: the driver is a \
                        timer whose stalls are known, so that the method can be judged.";

/// Stalls of one count, at least.
pub const STALLS_LEAST: u64 = 8;
/// The least time between stalls unless another is asked for.
const INTERVAL_LEAST_NS: u64 = 20_000_000;

#[derive(Args)]
pub struct LengthOptions {
    /// How long the driver stalls the core each time, which the method is then to find
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_ns)]
    pub length: u64,
    /// The core; the last one unless another is named
    #[arg(long, alias = "cpus", value_name = "CORE", value_parser = core)]
    pub cpu: Option<CpuId>,
    /// The least time from the end of a stall to the next; 20ms, or 1.5 times the length where that is more
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    pub interval: Option<u64>,
    /// Spread the times evenly over steps of this length, as of a driver whose timer can do no less (4ms at 250 Hz)
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    pub timer_step: Option<u64>,
    /// Times between stalls
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub steps: usize,
    /// Each count takes so long at least, and 8 stalls
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub each: Duration,
    /// Chooses the order
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Do not let a loop on the core measure the stalls directly
    #[arg(long)]
    pub no_probe: bool,
    /// Disturb this host although it looks as if others needed it
    #[arg(long)]
    pub even_if_in_use: bool,
    /// JSON lines instead of text: one per time between stalls, the length last
    #[arg(long)]
    pub json: bool,
}

fn core(text: &str) -> Result<CpuId, String> {
    text.parse().map(CpuId).map_err(|_| format!("'{text}' is not the number of a core"))
}

impl LengthOptions {
    fn least_ns(&self) -> u64 {
        self.interval.unwrap_or(INTERVAL_LEAST_NS.max(self.length / 2 * 3))
    }

    pub fn sweep(&self) -> Sweep {
        Sweep {
            least_ns: self.least_ns(),
            timer_step_ns: self.timer_step.unwrap_or(0),
            steps: self.steps,
            each: self.each,
            least_count: STALLS_LEAST,
            seed: self.seed,
        }
    }

    /// What it does to the core where it does most.
    pub fn spec(&self, cpu: CpuId) -> Spec {
        Spec {
            what: What::Freeze(Some(Method::Bpf)),
            length_ns: self.length,
            period_ns: self.length.saturating_add(self.least_ns()),
            cores: vec![cpu],
            phase: Phase::Same,
            guest: None,
            even_on_bare_metal: false,
        }
    }
}
