//! `surefoot nic health --answer`: the other end of the probes.

use super::lines::AnsweringLine;
use super::{HealthOptions, told};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_hostfs::Root;
use surefoot_interfaces::answer::{Answered, Answerer};
use surefoot_interfaces::probe::{address_text, own_address};
use surefoot_sys::signals;

/// How long the command is deaf to a wish to end.
const PATIENCE: Duration = Duration::from_millis(50);

pub fn run(options: &HealthOptions, interface: &str) -> anyhow::Result<Outcome> {
    let mut answerer = Answerer::open(interface, options.answer_delay.unwrap_or_default()).map_err(told)?;
    let address = address_text(own_address(&Root::host(), interface).map_err(told)?);
    let stop = signals::stop_flag()?;
    let say = |answered: Answered, is_first: bool| -> anyhow::Result<()> {
        let mut out = output::patient();
        let Answered { answered_count, dropped_count, strange_count, other_version_count } = answered;
        if options.json {
            if is_first {
                output::stream(&mut out, "nic health")?;
            }
            let address = address.clone();
            output::line(
                &mut out,
                &AnsweringLine {
                    interface,
                    address,
                    answered_count,
                    dropped_count,
                    strange_count,
                    other_version_count,
                },
            )?;
        } else if is_first {
            writeln!(
                out,
                "Answering probes on {interface}. Probe it from a neighbour: surefoot nic health --interface NAME --probe {address}"
            )?;
        } else {
            writeln!(
                out,
                "{answered_count} probes answered, {dropped_count} dropped, {other_version_count} of another release of Surefoot, {strange_count} \
                 other packets ignored."
            )?;
        }
        Ok(out.flush()?)
    };
    say(answerer.answered, true)?;
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) && options.duration.is_none_or(|all| begun.elapsed() < all) {
        answerer.turn(PATIENCE).map_err(told)?;
    }
    say(answerer.answered, false)?;
    Ok(Outcome::Done)
}
