//! `surefoot disturb drift`.

pub mod lines;
mod options;
mod reference;
mod text;

pub use options::{DriftOptions, HELP};

use crate::exit::Outcome;
use crate::{output, people};
use lines::{ComparedLine, DriftLine};
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_disturb::Fault;
use surefoot_disturb::disturbance::{Losses, Stall, choose, schedule};
use surefoot_disturb::drift::{Compared, drift};
use surefoot_disturb::random::Random;
use surefoot_disturb::safety::{self, Permit};
use surefoot_hostfs::{Root, clock, signals};

/// From arming to the earliest stall.
const ARMING_NS: u64 = 20_000_000;

pub fn run(options: &DriftOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    options.check()?;
    let spec = options.disturbance.0.clone();
    safety::check(&spec, &root)?;
    let stop = signals::stop_flag()?;
    let mut reference = options.reference.open(options.patience)?;
    // Whether it answers at all is known before anything is disturbed.
    reference.compare()?;
    let mut chosen = choose(&spec, &root)?;
    if !chosen.is_of_cores {
        let name = chosen.method;
        return Err(
            Fault::Refused(format!("{name} leaves this host's clocks alone: take a disturbance of its cores")).into()
        );
    }
    let permit = Permit::ask(&root, super::run::person(), options.even_if_in_use)?;
    let mut out = io::BufWriter::new(people::stdout());
    if options.json {
        output::stream(&mut out, "disturb drift")?;
    }
    let span_ns = options.duration.as_nanos() as u64;
    let mut rows: [Vec<Compared>; 2] = Default::default();
    let (mut stalls, mut count, mut losses) = (Vec::<Stall>::new(), 0, Losses::default());
    let mut unanswered = 0;
    for (row, is_disturbed) in rows.iter_mut().zip([false, true]) {
        if is_disturbed {
            let mut random = Random::new(options.seed);
            let from_ns = clock::monotonic_ns() + ARMING_NS;
            chosen.injector.arm(&schedule(&spec, &chosen.cores, from_ns, span_ns, &mut random))?;
        }
        let begin = Instant::now();
        let compared = (|| -> anyhow::Result<()> {
            while begin.elapsed() < options.duration {
                if stop.load(Ordering::Relaxed) {
                    return Err(Fault::Refused("stopped by a signal; nothing is disturbed any more".into()).into());
                }
                match reference.compare() {
                    Ok(compared) => {
                        if options.json {
                            output::line(&mut out, &ComparedLine::of(is_disturbed, compared))?;
                        }
                        row.push(compared);
                    }
                    Err(_) => unanswered += 1,
                }
                chosen.injector.collect(&mut stalls);
                count += stalls.drain(..).count() as u64;
                std::thread::sleep(options.every.min(options.duration.saturating_sub(begin.elapsed())));
            }
            Ok(())
        })();
        if is_disturbed {
            losses = chosen.injector.end(&mut stalls)?;
            count += stalls.drain(..).count() as u64;
        }
        compared?;
    }
    // A disturbance is one moment at which cores stand still: together where all do so at once.
    let disturbances = options.moments(count + losses.dropped, chosen.cores.len());
    let found = drift(&rows[0], &rows[1], disturbances)?;
    let mut warnings: Vec<String> =
        permit.overruled.iter().map(|why| format!("this host looks as if it were in use: {why}")).collect();
    if unanswered > 0 {
        warnings.push(format!("{unanswered} comparisons failed"));
    }
    let line = DriftLine::of(options, &chosen, reference.words(), &found, disturbances, losses, warnings, &root);
    if options.json {
        output::line(&mut out, &line)?;
    } else {
        out.write_all(text::of(&line).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Shorter than this between two comparisons, and they would be a load themselves.
const EVERY_LEAST: Duration = Duration::from_millis(1);
