//! The options of `surefoot disturb drift`.

use super::EVERY_LEAST;
use clap::Args;
use std::time::Duration;
use surefoot_console::units::parse_time;
use surefoot_disturb::Fault;
use surefoot_experiment::drift::reference::ReferenceChoice;
use surefoot_experiment::run::spec::SpecChoice;

/// What help says at its end.
pub const HELP: &str = "It compares the wall clock with the reference for --duration, and then again under the disturbance. It stops cores of \
                        this machine for everybody who uses it, is refused on a host that looks as if it were in use, and \
                        everything ends with this process, also when that is killed.";

#[derive(Args)]
pub struct DriftOptions {
    /// What is done, as for `surefoot disturb run`: `freeze:length=105ms,period=1s[,cores=0-1][,phase=…][,method=…]`
    #[arg(long, value_name = "SPEC", default_value = "freeze:length=105ms,period=1s")]
    pub disturbance: SpecChoice,
    /// What the wall clock is compared with: `ntp:SERVER[:PORT]`, or rtc, the machine's clock chip. It must not count time as the
    /// wall clock does
    #[arg(long, value_name = "REFERENCE")]
    pub reference: ReferenceChoice,
    /// How long each of the two rows of comparisons takes
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    pub duration: Duration,
    /// From one comparison to the next
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_time)]
    pub every: Duration,
    /// A comparison may take so long, 5s at most
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_time)]
    pub patience: Duration,
    /// Chooses the moments of the stalls
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Disturb this host although it looks as if others needed it
    #[arg(long)]
    pub even_if_in_use: bool,
    /// JSON lines instead of text: one per comparison, the drift last
    #[arg(long)]
    pub json: bool,
}

/// A comparison that takes longer would trip the dead man's switch of the stalls.
const PATIENCE_MOST: Duration = Duration::from_secs(5);
/// An hour of comparisons, and no more than can be kept.
const DURATION_MOST: Duration = Duration::from_secs(3_600);

impl DriftOptions {
    pub fn check(&self) -> Result<(), Fault> {
        let refused = |why: String| Err(Fault::Refused(why));
        if self.every < EVERY_LEAST || self.duration > DURATION_MOST {
            return refused(format!(
                "--every {:?} for --duration {:?}: {EVERY_LEAST:?} or more, for one hour or less",
                self.every, self.duration
            ));
        }
        if self.patience > PATIENCE_MOST || self.patience.is_zero() {
            return refused(format!("--patience {:?}: up to {PATIENCE_MOST:?} are possible", self.patience));
        }
        if self.every * 4 > self.duration {
            return refused(format!(
                "--duration {:?} holds too few comparisons, one --every {:?}",
                self.duration, self.every
            ));
        }
        Ok(())
    }
}
