//! `--recover` of `nic health`: the options as the library wants them.

use super::{HealthOptions, told};
use surefoot_console::units::counted;
use surefoot_hostfs::Root;
use surefoot_interfaces::recover::{Recovery, Stopped};
use surefoot_model::{Actor, Deed, InterfaceLook};

/// The next step of each interface that hangs, as far as it came, and why it came no further.
pub fn run(options: &HealthOptions, root: &Root, look: &InterfaceLook) -> anyhow::Result<(Vec<Deed>, Option<Stopped>)> {
    let record = crate::args::record(root, options.journal.as_deref())?;
    let actor = Actor::Command { uid: surefoot_checkpoint::inspect::own_user() };
    let recovery = Recovery { root, policy: options.policy(), actor, record };
    let steps = if options.yes { recovery.run(look) } else { recovery.plan(look) }.map_err(told)?;
    if steps.unread_count > 0 {
        let lines = counted(steps.unread_count, "line", "lines");
        let path = surefoot_console::people::path(&recovery.record.path());
        surefoot_console::tell!("surefoot: {lines} of {path} cannot be read, and may be steps");
    }
    Ok((steps.deeds, steps.stopped))
}
