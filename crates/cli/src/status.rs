//! `surefoot status`.

use crate::args::StatusOptions;
use crate::exit::Outcome;
use crate::{output, rooms, running, table};
use std::io::Write;
use surefoot_hostfs::Root;

pub fn run(options: &StatusOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    let capabilities = rooms::capabilities(&root);
    let watch = running::standing(&options.run_directory, &root);
    let mut out = crate::people::stdout();
    if options.json {
        output::stream(&mut out, "status")?;
        output::capabilities(&mut out, &capabilities)?;
        watch.iter().try_for_each(|watch| output::running_watch(&mut out, watch))?;
    } else {
        out.write_all(table::capabilities(&capabilities).as_bytes())?;
        out.write_all(table::running_watch(watch.as_ref()).as_bytes())?;
    }
    Ok(Outcome::Done)
}
