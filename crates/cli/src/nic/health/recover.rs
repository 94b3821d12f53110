//! Recovery of interfaces that hang: shown, or with `--yes` done, and written down.

use super::{HealthOptions, told};
use surefoot_hostfs::{Root, clock};
use surefoot_interfaces::devlink::Devlink;
use surefoot_interfaces::journal::Journal;
use surefoot_interfaces::read::carried_beside;
use surefoot_interfaces::{act, decide};
use surefoot_model::{Interface, InterfaceLook, InterfaceState, RecoveryOutcome, RecoveryStep};

/// The next step of each interface that hangs, as far as it came.
pub fn run(options: &HealthOptions, root: &Root, look: &InterfaceLook) -> anyhow::Result<Vec<RecoveryStep>> {
    let next = |one: &Interface, history: &[RecoveryStep]| {
        let (can_reset, carries) = (act::can_reset(root, &one.name), carried_beside(root, &one.name));
        let device = decide::Device { can_reset, carries };
        decide::decide(one, history, clock::realtime_ns(), &device, &options.policy())
    };
    let hangs = |one: &&Interface| one.state == InterfaceState::Hung;
    // A root takes a relative path for one of its own.
    let path = std::path::absolute(options.journal())?;
    if !options.yes {
        let history = Journal::look(root, &path).map_err(told)?;
        return Ok(look.interfaces.iter().filter(hangs).filter_map(|one| next(one, &history)).collect());
    }
    // What is done and cannot be written down is not done.
    if look.interfaces.iter().filter(hangs).all(|one| next(one, &[]).is_none()) {
        return Ok(Vec::new());
    }
    let mut journal = Journal::open(root, &path).map_err(told)?;
    let mut devlink = Devlink::open().ok();
    let mut steps = Vec::new();
    for one in look.interfaces.iter().filter(hangs) {
        let Some(step) = next(one, &journal.steps) else { continue };
        if step.outcome != RecoveryOutcome::Planned {
            // A watch that withholds the same step at each look says so once.
            if journal.is_news(&step) {
                journal.write(&step).map_err(told)?;
            }
            steps.push(step);
            continue;
        }
        journal.write(&RecoveryStep { outcome: RecoveryOutcome::Begun, ..step.clone() }).map_err(told)?;
        let done = act::apply(root, devlink.as_mut(), one, &step);
        journal.write(&done).map_err(told)?;
        steps.push(done);
    }
    Ok(steps)
}
