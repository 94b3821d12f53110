//! `surefoot disturb predict`.

mod goal_file;
mod noise;
mod options;

pub use options::PredictOptions;

use anyhow::Context;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::units::counted;
use surefoot_console::{output, people};
use surefoot_disturb::predict::Prediction;
use surefoot_experiment::predict::shard_file::{self, Shard};
use surefoot_experiment::predict::{lines, text};

/// Fewer periods of the noise than this, and the moment at which a job begins matters.
const PERIODS_FEW: u64 = 10;

pub fn run(options: &PredictOptions) -> anyhow::Result<Outcome> {
    if let Some(path) = &options.write_goal {
        goal_file::write(options, path)?;
        return Ok(Outcome::Done);
    }
    let mut out = io::BufWriter::new(people::stdout());
    let (about, found) = match options.merge.as_slice() {
        [] => {
            let (asked, about) = options.asked()?;
            let draws = options.shard.map_or(0..about.draws, |shard| shard.range(about.draws));
            // Whether all of it can be simulated, and not only this part.
            asked.check(about.draws)?;
            let found = if draws.is_empty() {
                Prediction { draws: Vec::new(), ..asked.predict(0..1, 1)? }
            } else {
                let found = asked.predict(draws, options.threads());
                match &options.goal {
                    Some(path) => found.with_context(|| format!("--goal {}", path.display()))?,
                    None => found?,
                }
            };
            if let Some(shard) = options.shard {
                Shard { shard, about, found }.write(&mut out)?;
                out.flush()?;
                return Ok(Outcome::Done);
            }
            (about, found)
        }
        files => shard_file::merge(files)?,
    };
    let result = lines::PredictionLine::of(&about, &found)?;
    if options.json {
        output::stream(&mut out, "disturb predict")?;
        for (number, draw) in found.draws.iter().enumerate() {
            output::line(&mut out, &lines::DrawLine::of(number, draw, found.base_ns))?;
        }
        output::line(&mut out, &result)?;
    } else {
        out.write_all(text::of(&about, &result).as_bytes())?;
    }
    out.flush()?;
    if let Some(periods) =
        about.longest_period_ns.checked_div(1).filter(|period| *period > 0).map(|period| found.base_ns / period)
        && periods < PERIODS_FEW
    {
        let lasts = match periods {
            0 => "less than a period".to_owned(),
            periods => counted(periods, "period", "periods"),
        };
        people::tell!(
            "surefoot: the undisturbed job lasts {lasts} of the noise, so that much depends on when it begins; more \
             --iterations tell more"
        );
    }
    Ok(Outcome::Done)
}
