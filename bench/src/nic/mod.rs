//! `surefoot-bench nic`: what fault tolerance costs an interface, as data and charts.

mod charts;
pub mod lines;
mod options;
mod run;
mod text;

pub use options::BenchOptions;

use anyhow::Context;
use std::io::{self, Write};
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::output;

pub fn run(options: &BenchOptions) -> anyhow::Result<Outcome> {
    let setup = options.setup()?;
    let mut charts = Vec::new();
    if let Some(directory) = &options.charts {
        // Before minutes of measuring.
        std::fs::create_dir_all(directory).with_context(|| format!("--charts: cannot make {}", directory.display()))?;
        for name in charts::FILES {
            charts.push((name, Destination::open("--charts", &directory.join(name))?));
        }
    }
    let found = run::run(&setup)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        found.lines.iter().try_for_each(|line| output::line(&mut out, line))?;
    } else {
        out.write_all(text::text(&found.lines).as_bytes())?;
    }
    out.flush()?;
    let mut pictures = charts::all(&found.lines);
    for (name, file) in charts {
        if let Some(place) = pictures.iter().position(|(of, _)| *of == name) {
            let (_, picture) = pictures.swap_remove(place);
            file.write(|out| out.write_all(picture.as_bytes()))?;
        }
    }
    Ok(if found.is_stopped { Outcome::Found } else { Outcome::Done })
}
