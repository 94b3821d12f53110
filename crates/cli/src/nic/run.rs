//! `surefoot nic run`: messages between two interfaces, by virtual time or by the clock.

mod options;
mod result;
mod virtual_time;
mod wall;

pub use options::RunOptions;
#[cfg(test)]
pub use result::ResultLine;

use options::Clock;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;

pub fn run(options: &RunOptions) -> anyhow::Result<Outcome> {
    options.check()?;
    let result = match options.clock() {
        Clock::Virtual => virtual_time::run(options)?,
        Clock::Wall => wall::run(options)?,
    };
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "nic run")?;
        output::line(&mut out, &result)?;
    } else {
        out.write_all(result.text().as_bytes())?;
    }
    out.flush()?;
    Ok(if result.is_perfect() { Outcome::Done } else { Outcome::Found })
}
