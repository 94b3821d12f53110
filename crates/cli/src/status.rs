//! `surefoot status`.

use crate::args::StatusOptions;
use crate::exit::Outcome;
use crate::{output, rooms, table};
use std::io::Write;
use surefoot_hostfs::Root;

pub fn run(options: &StatusOptions) -> anyhow::Result<Outcome> {
    let capabilities = rooms::capabilities(&Root::host());
    let mut out = crate::people::stdout();
    if options.json {
        output::stream(&mut out, "status")?;
        output::capabilities(&mut out, &capabilities)?;
    } else {
        out.write_all(table::capabilities(&capabilities).as_bytes())?;
    }
    Ok(Outcome::Done)
}
