//! `surefoot status`.

use crate::args::StatusOptions;
use crate::exit::Outcome;
use crate::{output, table};
use std::io::{self, Write};
use surefoot_hostfs::Root;

pub fn run(options: &StatusOptions) -> anyhow::Result<Outcome> {
    let mut capabilities = surefoot_stall::host_capabilities(&Root::host());
    capabilities.push(crate::checkpoint::drive::capability(&Root::host()));
    let mut out = io::stdout().lock();
    if options.json {
        output::capabilities(&mut out, &capabilities)?;
    } else {
        out.write_all(table::capabilities(&capabilities).as_bytes())?;
    }
    Ok(Outcome::Done)
}
