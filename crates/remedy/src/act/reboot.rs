//! `reboot`: restarts a host, and waits until it is back: by its baseboard controller, or, for the host that this runs on, by systemd.
//!
//! What shows a restart is remembered before: the kernel's boot id, or the controller's time of the last reset. So a controller that died
//! in between tells whether the restart was asked for.

use super::redfish::{Bmc, Refused};
use super::shown::{cut, last_words, remarked};
use super::{Order, Outcome, PriorAttempt, machine};
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_hostfs::Root;
use surefoot_model::{MachineId, Observed, RestartProof};
use surefoot_outside::http::redfish::System;
use surefoot_sys::program;

/// How often a machine that restarts is looked at.
const LOOK_AGAIN_NS: u64 = 10_000_000_000;
/// How long asking systemd may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why an order ends that was another machine's.
pub const ANOTHER_MACHINE: &str = "another machine answers by this name now";
const UNPROVABLE: &str = "a restart could not be proven: this machine has neither a machine ID (/etc/machine-id) nor an SMBIOS UUID that this \
     agent may read; run systemd-machine-id-setup";
const UNKNOWN_MACHINE: &str =
    "the boot ID changed, but it is unknown which machine was to restart: look whether it did";

/// How long restarts take here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// Where a controller does not tell how far its machine has started, it counts as back after so long with power.
    pub settle: Duration,
    /// A machine that is not back after so long has failed.
    pub limit: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times { settle: Duration::from_secs(300), limit: Duration::from_secs(1_800) }
    }
}

/// What a restart remembers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Memo {
    /// What will be another after the restart: boot id, or time of the last reset; empty where nobody tells.
    before: String,
    /// When the restart was asked for, seconds of the wall clock; 0 for not yet.
    asked_s: u64,
    /// The machine that is restarted, as its controller names it.
    #[serde(default)]
    system: System,
    /// The machine that restarts itself: the boot ID of another one proves nothing.
    #[serde(default)]
    machine: MachineId,
}

impl Memo {
    fn of(order: &Order) -> Option<Memo> {
        serde_json::from_str(&order.memo).ok()
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn goes_on(detail: &str, memo: &Memo, again_in_ns: u64) -> Outcome {
    Outcome::GoesOn { detail: detail.to_owned(), memo: memo.text(), again_in_ns }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Restarts the machine of this controller: remembers at the first call, asks at the second, and looks at each one after it.
pub fn by_bmc(bmc: &Bmc, times: &Times, order: &Order, stop: &AtomicBool) -> Outcome {
    go_on_by_bmc(bmc, times, order, stop).unwrap_or_else(|refused| refused.outcome(&order.memo))
}

fn go_on_by_bmc(bmc: &Bmc, times: &Times, order: &Order, stop: &AtomicBool) -> Result<Outcome, Refused> {
    let known = match order.remembered::<Memo>() {
        Ok(known) => known,
        Err(failed) => return Ok(failed),
    };
    let remembered = known.as_ref().map(|memo| memo.system.clone()).unwrap_or_default();
    let machine = bmc.same_machine(&remembered, stop)?;
    let Some(memo) = known else {
        let memo = Memo {
            before: machine.last_reset.unwrap_or_default(),
            asked_s: 0,
            system: machine.system,
            ..Memo::default()
        };
        return Ok(goes_on(&remarked("about to restart", &machine.doubt), &memo, 0));
    };
    if memo.asked_s == 0 {
        bmc.restart(&machine, stop)?;
        return Ok(goes_on(
            "the controller restarts it",
            &Memo { asked_s: now_s(), ..memo },
            LOOK_AGAIN_NS.min(nanoseconds(times.settle)),
        ));
    }
    let waited = Duration::from_secs(now_s().saturating_sub(memo.asked_s));
    let is_up = match machine.progress.as_deref() {
        Some(progress) => progress == "OSRunning",
        None => waited >= times.settle,
    };
    if machine.is_on() && is_up {
        let is_reset = !memo.before.is_empty() && machine.last_reset.as_ref().is_some_and(|last| *last != memo.before);
        let proof = match machine.progress {
            Some(_) => Some(RestartProof::BootProgress),
            None => is_reset.then_some(RestartProof::LastReset),
        };
        let observed = match proof {
            Some(proof) => Observed::Restarted { proof, after_s: waited.as_secs() },
            None => Observed::Unobserved {
                why: format!(
                    "power is on {} s after the request, and the controller reports neither BootProgress nor another LastResetTime",
                    waited.as_secs()
                ),
            },
        };
        return Ok(Outcome::Done { observed, remark: machine.doubt, memo: memo.text() });
    }
    if waited >= times.limit {
        let progress =
            machine.progress.as_deref().map_or_else(String::new, |word| format!(", its start {}", cut(word)));
        let state = format!("its power is {}{progress}", machine.power_text());
        let detail = format!("it is not back {} s after its restart: {state}", waited.as_secs());
        return Ok(Outcome::Failed { detail, memo: memo.text(), is_passing: false });
    }
    Ok(goes_on("it is not back yet", &memo, LOOK_AGAIN_NS.min(nanoseconds(times.settle))))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a restart whose controller died was asked for.
pub fn find_by_bmc(bmc: &Bmc, order: &Order) -> PriorAttempt {
    let memo = match Memo::of(order) {
        None => return PriorAttempt::MayRepeat,
        // Asked for: going on is looking.
        Some(memo) if memo.asked_s != 0 => return PriorAttempt::MayRepeat,
        Some(memo) => memo,
    };
    match bmc.same_machine(&memo.system, &AtomicBool::new(false)) {
        Ok(machine) if !memo.before.is_empty() => match machine.last_reset {
            Some(last) if last == memo.before => PriorAttempt::MayRepeat,
            Some(_) => PriorAttempt::Effect {
                observed: Observed::Restarted { proof: RestartProof::LastReset, after_s: 0 },
                memo: order.memo.clone(),
            },
            None => {
                PriorAttempt::Unknown { why: "its controller no longer tells when it was restarted last".to_owned() }
            }
        },
        Ok(_) => PriorAttempt::Unknown { why: "its controller does not tell when it was restarted last".to_owned() },
        Err(refused) => PriorAttempt::Unknown { why: refused.why },
    }
}

/// Restarts the machine that this runs on. Another boot ID of the same machine proves the restart; one of a machine that only has the
/// same host name proves nothing.
pub fn here(root: &Root, order: &Order, stop: &AtomicBool) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let boot = match boot_id(root) {
        Ok(boot) => boot,
        Err(why) => return failed(why, false),
    };
    let known = match order.remembered::<Memo>() {
        Ok(known) => known,
        Err(failed) => return failed,
    };
    let machine = machine::of(root);
    match known {
        None if !machine.is_known() => failed(UNPROVABLE.to_owned(), false),
        None => goes_on("about to restart", &Memo { before: boot, machine, ..Memo::default() }, 0),
        Some(memo) if memo.before != boot => match memo.machine.is(&machine) {
            Some(true) => Outcome::done(Observed::Restarted { proof: RestartProof::BootId, after_s: 0 }, memo.text()),
            Some(false) => failed(format!("not done: {ANOTHER_MACHINE}; {} was to restart", memo.machine), false),
            None => failed(UNKNOWN_MACHINE.to_owned(), false),
        },
        Some(memo) => {
            let Some(path) = program::find("systemctl") else {
                return failed("unsupported: restarting this host needs systemd".into(), false);
            };
            let mut command = Command::new(path);
            command.arg("reboot").env_clear().env("LC_ALL", "C").current_dir("/");
            match program::run(command, b"", PATIENCE, stop) {
                Ok(ended) if ended.code == 0 => goes_on("this host restarts", &memo, LOOK_AGAIN_NS),
                Ok(ended) => failed(format!("systemctl reboot: {}", last_words(&ended.complaint)), false),
                Err(broken) => failed(format!("systemctl reboot: {broken}"), true),
            }
        }
    }
}

fn boot_id(root: &Root) -> Result<String, String> {
    root.read(root.proc("sys/kernel/random/boot_id"))
        .map(|text| text.trim().to_owned())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;

    fn machine_of(boot: &str, machine_id: &str, uuid: &str) -> (tempfile::TempDir, Root) {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/random/boot_id", boot),
            ("etc/machine-id", machine_id),
            ("sys/class/dmi/id/product_uuid", uuid),
        ] {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(home.path());
        (home, root)
    }

    #[test]
    fn only_another_boot_of_the_same_machine_is_a_restart() {
        const ONE: &str = "0123456789abcdef0123456789abcdef";
        const TWO: &str = "f123456789abcdef0123456789abcdef";
        let stop = AtomicBool::new(true);
        let (_home, before) = machine_of("boot-1", ONE, ONE);
        let Outcome::GoesOn { memo, .. } = here(&before, &Order::default(), &stop) else { panic!("it goes on") };
        let after = |memo: &str, boot: &str, machine_id: &str, uuid: &str| {
            let (_home, root) = machine_of(boot, machine_id, uuid);
            here(&root, &Order { memo: memo.to_owned(), ..Order::default() }, &stop)
        };
        assert!(matches!(after(&memo, "boot-2", ONE, ONE), Outcome::Done { .. }));
        assert!(
            matches!(after(&memo, "boot-2", TWO, ONE), Outcome::Done { .. }),
            "diskless: another ID with each boot"
        );
        for (machine_id, uuid, words) in [
            (ONE, TWO, "not done: another machine answers by this name now"),
            (TWO, "", "not done: another machine answers by this name now"),
            ("", "", "unknown which machine"),
            ("uninitialized", "", "unknown which machine"),
        ] {
            match after(&memo, "boot-2", machine_id, uuid) {
                Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.contains(words), "{detail}"),
                other => panic!("{machine_id} {uuid}: {other:?}"),
            }
        }
        // By an agent of an earlier release.
        match after(r#"{"before":"boot-1","asked_s":0}"#, "boot-2", ONE, ONE) {
            Outcome::Failed { detail, .. } => assert!(detail.contains("unknown which machine"), "{detail}"),
            other => panic!("{other:?}"),
        }
        match after("", "boot-1", "", "") {
            Outcome::Failed { detail, .. } => assert!(detail.contains("could not be proven"), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
}
