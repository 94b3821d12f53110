//! `surefoot status`.

use crate::args::StatusOptions;
use crate::stall::{lines, text};
use crate::{rooms, running};
use std::io::Write;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_hostfs::Root;

pub fn run(options: &StatusOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    let capabilities = rooms::capabilities(&root);
    let watch = running::standing(&options.run_directory, &root);
    let mut out = surefoot_console::people::stdout();
    if options.json {
        output::stream(&mut out, "status")?;
        lines::capabilities(&mut out, &capabilities)?;
        watch.iter().try_for_each(|watch| lines::running_watch(&mut out, watch))?;
    } else {
        out.write_all(text::capabilities(&capabilities).as_bytes())?;
        out.write_all(text::running_watch(watch.as_ref()).as_bytes())?;
    }
    Ok(Outcome::Done)
}
