//! `restart:UNIT`: restarts a unit of systemd on the host that this runs on.
//!
//! Each start of a unit has an invocation id of its own; the one before is remembered, so that a restart is found again.

use super::shown::{cut, last_words};
use super::{Order, Outcome, PriorAttempt};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_model::Observed;
use surefoot_sys::program;

/// How long a unit may take to stop and start.
const PATIENCE: Duration = Duration::from_secs(300);

/// Restarts the unit: remembers its invocation at the first call, and restarts it at the second.
pub fn restart(unit: &str, order: &Order, stop: &AtomicBool) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let before = match invocation(unit, stop) {
        Ok(invocation) => invocation,
        Err(why) => return failed(why, false),
    };
    if order.memo.is_empty() {
        // A unit that does not run has none.
        let memo = if before.is_empty() { "none".to_owned() } else { before };
        return Outcome::GoesOn { detail: format!("about to restart {}", cut(unit)), memo, again_in_ns: 0 };
    }
    match systemctl(&["restart", "--", unit], stop) {
        // Whether it runs now, by another invocation than before.
        Ok(_) => match find(unit, order) {
            PriorAttempt::Effect { observed, memo } => Outcome::done(observed, memo),
            PriorAttempt::MayRepeat => {
                failed(format!("systemctl restarted {}, and its invocation is the same", cut(unit)), true)
            }
            PriorAttempt::Unknown { why } => failed(why, false),
        },
        // Whoever stops the controller meanwhile says nothing of the unit: what became of it tells its invocation.
        Err(why) if stop.load(Ordering::Relaxed) => match find(unit, order) {
            PriorAttempt::Effect { observed, memo } => Outcome::done(observed, memo),
            PriorAttempt::MayRepeat => failed(why, true),
            PriorAttempt::Unknown { why } => failed(why, false),
        },
        Err(why) => failed(why, false),
    }
}

/// Whether the unit was started anew since its invocation was remembered.
pub fn find(unit: &str, order: &Order) -> PriorAttempt {
    if order.memo.is_empty() {
        return PriorAttempt::MayRepeat;
    }
    match invocation(unit, &AtomicBool::new(false)) {
        Ok(now) if now == order.memo || (now.is_empty() && order.memo == "none") => PriorAttempt::MayRepeat,
        Ok(_) => match state(unit) {
            Ok(state) if state == "active" || state == "inactive" => {
                let evidence = format!("{} has another invocation ID and is {state}", cut(unit));
                PriorAttempt::Effect { observed: Observed::Effect { evidence }, memo: order.memo.clone() }
            }
            Ok(state) => PriorAttempt::Unknown { why: format!("{} was restarted and is {}", cut(unit), cut(&state)) },
            Err(why) => PriorAttempt::Unknown { why },
        },
        Err(why) => PriorAttempt::Unknown { why },
    }
}

fn invocation(unit: &str, stop: &AtomicBool) -> Result<String, String> {
    systemctl(&["show", "--property=InvocationID", "--value", "--", unit], stop).map(|text| text.trim().to_owned())
}

/// systemd's word for its state. A unit of type oneshot that has ended is inactive.
fn state(unit: &str) -> Result<String, String> {
    let words = ["show", "--property=ActiveState", "--value", "--", unit];
    systemctl(&words, &AtomicBool::new(false)).map(|text| text.trim().to_owned())
}

fn systemctl(arguments: &[&str], stop: &AtomicBool) -> Result<String, String> {
    let path = program::find("systemctl").ok_or("unsupported: restarting a unit needs systemd")?;
    let mut command = Command::new(path);
    command.args(arguments).env_clear().env("LC_ALL", "C").current_dir("/");
    match program::run(command, b"", PATIENCE, stop) {
        Ok(ended) if ended.code == 0 => Ok(String::from_utf8_lossy(&ended.output).into_owned()),
        Ok(ended) => Err(format!("systemctl {}: {}", arguments[0], last_words(&ended.complaint))),
        Err(broken) => Err(format!("systemctl {}: {broken}", arguments[0])),
    }
}
