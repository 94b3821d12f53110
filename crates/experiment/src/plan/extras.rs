//! Numbers of a preset that no workload gives: the length of stalls by counting them, what they do to the wall clock, and figures of a
//! model.

use crate::drift::measuring;
use crate::drift::reference::ReferenceChoice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_disturb::Fault;
use surefoot_disturb::length::{Length, Sweep, Timer, fit};
use surefoot_disturb::preset::{Drawn, Extra, Preset};
use surefoot_hostfs::{Root, cpus};

/// Figures of ICPE'20 that a model draws.
const FIGURES: [u32; 7] = [4, 6, 8, 9, 10, 11, 12];

/// A figure of the model.
pub type Shape = fn(u32) -> anyhow::Result<Drawn>;

/// Measures them.
pub fn of(
    preset: Preset,
    is_quick: bool,
    reference: Option<&ReferenceChoice>,
    is_time_left: bool,
    root: &Root,
    stop: &AtomicBool,
    shape: Shape,
) -> Vec<Extra> {
    const OVER: &str = "the time was over";
    let length = |asked_ns: &u64| {
        let found = || length(*asked_ns, is_quick, root, stop).map_err(|error| error.to_string());
        let found = if is_time_left { found() } else { Err(OVER.into()) };
        Extra::Length { asked_ns: *asked_ns, found }
    };
    let mut extras: Vec<Extra> = preset.lengths_ns().iter().map(length).collect();
    if preset == Preset::Slides {
        let found = || measuring::of_preset(reference, Preset::drifting(), is_quick, root, stop);
        extras.push(Extra::Drift { found: if is_time_left { found() } else { Err(OVER.into()) } });
    }
    if preset == Preset::Icpe20 {
        extras.extend(
            FIGURES.map(|number| Extra::Figure { number, found: shape(number).map_err(|error| format!("{error:#}")) }),
        );
    }
    extras
}

/// As `surefoot disturb length` does it, with shorter steps where time is short.
fn length(asked_ns: u64, is_quick: bool, root: &Root, stop: &AtomicBool) -> Result<Length, Fault> {
    let online = cpus::online(root)?;
    let cpu = online.last().copied().ok_or_else(|| Fault::Refused("no core is online".into()))?;
    let sweep = Sweep {
        // The stalls take two fifths of the time.
        least_ns: (asked_ns / 2 * 3).max(20_000_000),
        timer_step_ns: 0,
        steps: 5,
        each: Duration::from_millis(if is_quick { 300 } else { 1_000 }),
        least_count: if is_quick { 5 } else { 8 },
        seed: 1,
    };
    let mut driver = Timer::load(cpu, asked_ns, root)?;
    let steps = sweep.run(&mut driver, &|| stop.load(Ordering::Relaxed), |_| {})?;
    Ok(fit(&steps)?)
}
