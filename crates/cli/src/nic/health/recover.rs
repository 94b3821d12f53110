//! Recovery of interfaces that hang: shown, or with `--yes` done, and written down.

use super::{HealthOptions, told};
use anyhow::Context;
use std::path::Path;
use surefoot_hostfs::{Root, clock, signals};
use surefoot_interfaces::devlink::Devlink;
use surefoot_interfaces::journal::{self, Journal};
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
    let history = Journal::look(root, &path).map_err(told)?;
    let is_unfinished = |one: &&Interface| is_unfinished(one, &history);
    if !options.yes {
        let again = look.interfaces.iter().filter(is_unfinished).filter_map(|one| planned_again(one, &history));
        return Ok(again.chain(look.interfaces.iter().filter(hangs).filter_map(|one| next(one, &history))).collect());
    }
    // What is done and cannot be written down is not done.
    let is_wanted = |one: &Interface| is_unfinished(&one) || hangs(&one) && next(one, &[]).is_some();
    if !look.interfaces.iter().any(is_wanted) {
        return Ok(Vec::new());
    }
    let mut journal = journal(root, &path)?;
    if journal.skipped_count > 0 {
        let (count, path) = (journal.skipped_count, path.display());
        crate::people::tell!(
            "--journal: {count} lines of {path} cannot be read; the limits do not count the steps in them"
        );
    }
    let mut devlink = Devlink::open().ok();
    let mut steps = Vec::new();
    for one in &look.interfaces {
        // A wish to end waits: an interface stays neither switched off nor without a line of what was done.
        let _held = signals::hold();
        // Looked for anew: the process that began it may have been at its step until now.
        if let Some(begun) = decide::unfinished_cycle(&one.name, &journal.steps, clock::realtime_ns()) {
            let done = act::switch_on_again(root, &begun.clone());
            journal.write(&done).map_err(told)?;
            steps.push(done);
            continue;
        }
        let Some(step) = Some(one).filter(hangs).and_then(|one| next(one, &journal.steps)) else { continue };
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

/// Whether a link cycle of it has no end yet.
fn is_unfinished(one: &Interface, history: &[RecoveryStep]) -> bool {
    decide::unfinished_cycle(&one.name, history, clock::realtime_ns()).is_some()
}

/// What a dry run says of a link cycle that was begun and not ended.
fn planned_again(one: &Interface, history: &[RecoveryStep]) -> Option<RecoveryStep> {
    let begun = decide::unfinished_cycle(&one.name, history, clock::realtime_ns()).filter(|_| !one.is_up)?;
    let detail = "the process that began it was ended before it had switched it on".to_owned();
    Some(RecoveryStep { outcome: RecoveryOutcome::Planned, detail, ..begun.clone() })
}

/// The journal, to be written on: a file of this user's alone, to which root is led by nobody else's link.
fn journal(root: &Root, path: &Path) -> anyhow::Result<Journal> {
    if path == Path::new(journal::DEFAULT) {
        journal::make_folder(root).map_err(told)?;
    }
    let cannot = || format!("--journal: cannot write {}; nothing was changed", path.display());
    let opened = surefoot_store::output::open(path).with_context(cannot)?;
    Journal::open(opened.file, path).map_err(told)
}
