//! `surefoot disturb drift`.

mod options;

pub use options::{DriftOptions, HELP};

use std::io::{self, Write};
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_console::units::counted;
use surefoot_console::{output, people};
use surefoot_disturb::Fault;
use surefoot_disturb::disturbance::choose;
use surefoot_disturb::drift::Compared;
use surefoot_disturb::safety::{self, Permit};
use surefoot_experiment::drift::lines::{ComparedLine, DriftLine};
use surefoot_experiment::drift::measuring::Measuring;
use surefoot_experiment::drift::text;
use surefoot_hostfs::Root;
use surefoot_sys::signals;

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
    let measuring = Measuring { spec, duration: options.duration, every: options.every, seed: options.seed };
    let mut tell = |is_disturbed: bool, compared: Compared| match options.json {
        true => output::line(&mut out, &ComparedLine::of(is_disturbed, compared)),
        false => Ok(()),
    };
    let found = measuring.run(&mut chosen, &mut reference, stop, &mut tell)?;
    let mut warnings: Vec<String> =
        permit.overruled.iter().map(|why| format!("this host looks as if it were in use: {why}")).collect();
    if found.unanswered > 0 {
        warnings.push(format!("{} failed", counted(found.unanswered, "comparison", "comparisons")));
    }
    let line = DriftLine::of(&options.disturbance.0, &chosen, reference.words(), &found, warnings, &root);
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
