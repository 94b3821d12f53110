//! The wall clock beside a reference, undisturbed and then disturbed.

use crate::drift::reference::{Reference, ReferenceChoice};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_disturb::Fault;
use surefoot_disturb::disturbance::{Chosen, Losses, Phase, Spec, Stall, choose, schedule};
use surefoot_disturb::drift::{Compared, Drift, drift};
use surefoot_hostfs::{Root, clock};
use surefoot_random::Random;

/// From arming to the earliest stall.
const ARMING_NS: u64 = 20_000_000;
/// How often the injector is asked what it did.
const COLLECT_EVERY: Duration = Duration::from_millis(500);
/// A comparison of a preset may take so long.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is measured.
pub struct Measuring {
    /// The disturbance.
    pub spec: Spec,
    /// Of each of the two rows of comparisons.
    pub duration: Duration,
    /// From one comparison to the next.
    pub every: Duration,
    /// Chooses the moments of the stalls.
    pub seed: u64,
}

/// What was found.
pub struct Measured {
    /// The drift.
    pub drift: Drift,
    /// Moments at which cores stood still: one where all do so at once.
    pub disturbances: u64,
    /// Stalls that were not as planned.
    pub losses: Losses,
    /// Comparisons that failed.
    pub unanswered: u64,
}

impl Measuring {
    /// Compares, first undisturbed, then disturbed. `tell` gets each comparison.
    ///
    /// # Errors
    /// It was stopped, a stall cannot be done, or there are too few comparisons.
    pub fn run(
        &self,
        chosen: &mut Chosen,
        reference: &mut Reference,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(bool, Compared) -> io::Result<()>,
    ) -> anyhow::Result<Measured> {
        let span_ns = self.duration.as_nanos() as u64;
        let mut rows: [Vec<Compared>; 2] = Default::default();
        let (mut stalls, mut count, mut losses) = (Vec::<Stall>::new(), 0, Losses::default());
        let mut unanswered = 0;
        for (row, is_disturbed) in rows.iter_mut().zip([false, true]) {
            if is_disturbed {
                let mut random = Random::new(self.seed);
                let from_ns = clock::monotonic_ns() + ARMING_NS;
                chosen.injector.arm(&schedule(&self.spec, &chosen.cores, from_ns, span_ns, &mut random))?;
            }
            let begin = Instant::now();
            let compared = (|| -> anyhow::Result<()> {
                while begin.elapsed() < self.duration {
                    if stop.load(Ordering::Relaxed) {
                        return Err(Fault::Refused("stopped by a signal; nothing is disturbed any more".into()).into());
                    }
                    match reference.compare() {
                        Ok(compared) => {
                            tell(is_disturbed, compared)?;
                            row.push(compared);
                        }
                        // A server that refuses is asked no more.
                        Err(error) if error.is::<Fault>() => return Err(error),
                        Err(_) => unanswered += 1,
                    }
                    let next = (begin.elapsed() + self.every).min(self.duration);
                    loop {
                        chosen.injector.collect(&mut stalls);
                        count += stalls.drain(..).count() as u64;
                        let rest = next.saturating_sub(begin.elapsed());
                        if rest.is_zero() || stop.load(Ordering::Relaxed) {
                            break;
                        }
                        // It takes who does not ask it for one who stands still, and ends.
                        std::thread::sleep(rest.min(COLLECT_EVERY));
                    }
                }
                Ok(())
            })();
            if is_disturbed {
                losses = chosen.injector.end(&mut stalls)?;
                count += stalls.drain(..).count() as u64;
            }
            compared?;
        }
        let stalls = count + losses.dropped;
        let disturbances = match self.spec.phase {
            Phase::Same => stalls.div_ceil(chosen.cores.len().max(1) as u64),
            Phase::Staggered | Phase::Random => stalls,
        };
        Ok(Measured { drift: drift(&rows[0], &rows[1], disturbances)?, disturbances, losses, unanswered })
    }
}

/// The row of a preset: long stalls of all cores beside the reference that was named, or the machine's clock chip.
pub fn of_preset(
    named: Option<&ReferenceChoice>,
    spec: Spec,
    is_quick: bool,
    root: &Root,
    stop: &AtomicBool,
) -> Result<(Drift, String), String> {
    let chosen = named.unwrap_or(&ReferenceChoice::Rtc);
    let mut reference = chosen.open(PATIENCE).map_err(|error| match named {
        Some(_) => format!("{error:#}"),
        None => "it takes a reference that the stalls do not touch, and this machine shows no clock chip: name a time server by \
                 --reference ntp:SERVER"
            .into(),
    })?;
    reference.compare().map_err(|error| format!("{error:#}"))?;
    let duration = Duration::from_secs(if is_quick { 8 } else { 30 });
    let measuring = Measuring { spec, duration, every: Duration::from_millis(500), seed: 1 };
    let mut injector = choose(&measuring.spec, root).map_err(|error| error.to_string())?;
    if !injector.is_of_cores {
        return Err(format!("{} leaves this host's clocks alone", injector.method));
    }
    let found = measuring.run(&mut injector, &mut reference, stop, &mut |_, _| Ok(()));
    let found = found.map_err(|error| format!("{error:#}"))?;
    Ok((found.drift, super::lines::clocksource(root).unwrap_or_else(|| "not told".into())))
}
