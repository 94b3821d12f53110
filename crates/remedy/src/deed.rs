//! Steps as deeds: what a journal records of an attempt.

use crate::act::{Order, Outcome, PriorAttempt};
use crate::step::Step;
use surefoot_model::{
    Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Observed, Room, Subject, SubjectKind,
};

/// The longest text of a target or an outcome that is recorded, bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

impl Order {
    /// The attempt as a deed that begins now. `own_host` is the host whose journal records it.
    pub fn deed(&self, actor: Actor, own_host: &str, now_realtime_ns: u64) -> Deed {
        let (action, target) = self.step.deed();
        let name = if self.host == own_host { "" } else { &self.host };
        Deed {
            at_realtime_ns: now_realtime_ns,
            begun_realtime_ns: now_realtime_ns,
            room: Room::Remedy,
            subject: Subject::new(SubjectKind::Host, name),
            actor,
            action,
            target: match (target, action) {
                // What the alert is about is what these act on.
                (DeedTarget::Subject, DeedAction::OfflinePage | DeedAction::ResetInterface)
                    if !self.subject.is_empty() =>
                {
                    DeedTarget::Part { name: cut(&self.subject) }
                }
                (target, _) => target,
            },
            reason: DeedReason::Case { case: self.case, fault: cut(&self.fault), service: cut(&self.service) },
            outcome: DeedOutcome::Begun,
        }
    }
}

impl Step {
    fn deed(&self) -> (DeedAction, DeedTarget) {
        let part = |name: &str| match name {
            "" => DeedTarget::Subject,
            name => DeedTarget::Part { name: cut(name) },
        };
        let setting = |name: &str, to: String| DeedTarget::Setting { name: cut(name), from: None, to: cut(&to) };
        match self {
            Step::Recheck => (DeedAction::Recheck, DeedTarget::Subject),
            Step::Drain => (DeedAction::Drain, DeedTarget::Subject),
            Step::Return => (DeedAction::Return, DeedTarget::Subject),
            Step::Restart(unit) => (DeedAction::RestartUnit, part(unit)),
            Step::ResetInterface(name) => (DeedAction::ResetInterface, part(name)),
            Step::OfflinePage => (DeedAction::OfflinePage, DeedTarget::Subject),
            Step::TuneReporting(interval) => {
                (DeedAction::TuneReporting, setting("polling interval", format!("{} s", interval.as_secs())))
            }
            Step::Firmware { name, value } => (DeedAction::SetFirmware, setting(name, value.clone())),
            Step::Reboot => (DeedAction::Reboot, DeedTarget::Subject),
            Step::Stress(_) => (DeedAction::Stress, DeedTarget::Subject),
            Step::Debug(adapter) => (DeedAction::DebugMode, part(adapter)),
            Step::Collect(adapter) => (DeedAction::CollectErrors, part(adapter)),
            Step::SoftRepair(adapter) => (DeedAction::SoftRepair, part(adapter)),
            Step::HardRepair(adapter) => (DeedAction::HardRepair, part(adapter)),
            Step::Run(path) => (DeedAction::RunHook, DeedTarget::Hook { path: cut(path) }),
            Step::Ticket(name) => (DeedAction::FileTicket, part(name)),
            Step::Restore(step) => (DeedAction::RestoreSetting, part(&step.to_string())),
        }
    }
}

impl Outcome {
    /// As a journal records it.
    pub fn as_deed(&self) -> DeedOutcome {
        match self {
            Outcome::Done { observed, .. } => DeedOutcome::Done { observed: observed.clone() },
            Outcome::NotNeeded { detail } => DeedOutcome::NotNeeded { why: cut(detail) },
            Outcome::Gone { detail } => DeedOutcome::Done { observed: Observed::FaultGone { evidence: cut(detail) } },
            Outcome::GoesOn { detail, .. } => DeedOutcome::GoesOn { note: cut(detail) },
            Outcome::Waits { waits_for, .. } => DeedOutcome::GoesOn { note: cut(&format!("waits for {waits_for}")) },
            Outcome::Failed { detail, .. } => DeedOutcome::Failed { error: cut(detail) },
        }
    }
}

impl PriorAttempt {
    /// As a journal records it; `None` where the attempt had no effect and is made again.
    pub fn as_deed(&self) -> Option<DeedOutcome> {
        match self {
            PriorAttempt::Effect { observed, .. } => Some(DeedOutcome::Done { observed: observed.clone() }),
            PriorAttempt::MayRepeat => None,
            PriorAttempt::Unknown { why } => Some(DeedOutcome::InDoubt { error: cut(why) }),
        }
    }
}

fn cut(text: &str) -> String {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    text[..ends.take_while(|end| *end <= TEXT_BYTES_MAX).last().unwrap_or(0)].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(step: &str, outcome: &Outcome) -> String {
        let order = Order {
            case: 7,
            step: step.parse().unwrap(),
            host: "n1".into(),
            fault: "memory/rate".into(),
            subject: "dimm A1".into(),
            ..Order::default()
        };
        let deed = order.deed(Actor::Agent { host: "n1".into() }, "n1", 1);
        assert_eq!(deed.subject, Subject::host(), "its own host needs no name");
        assert_eq!(order.deed(Actor::Unknown, "head", 1).subject.name, "n1");
        assert_eq!(deed.reason.to_string(), "case 7: memory/rate");
        deed.with_outcome(outcome.as_deed(), 2).words()
    }

    #[test]
    fn each_step_is_a_deed_with_its_target() {
        let done = Outcome::done(Observed::Hook { text: "ok".into() }, "");
        for (step, said) in [
            ("drain", "drain the host: done: ok"),
            ("run:/usr/lib/hook", "run a hook (/usr/lib/hook): done: ok"),
            ("firmware:Threshold=1", "change a firmware setting (Threshold = 1): done: ok"),
            ("tune-reporting:35s", "tune error reporting (polling interval = 35 s): done: ok"),
            ("offline-page", "take pages offline (dimm A1): done: ok"),
            ("reset-interface:eth0", "reset a network interface (eth0): done: ok"),
            ("restore:debug:generic", "restore a setting (debug:generic): done: ok"),
        ] {
            assert_eq!(words(step, &done), said);
        }
        let failed = Outcome::Failed { detail: "é".repeat(4096), memo: String::new(), is_passing: true };
        assert!(words("reboot", &failed).len() < TEXT_BYTES_MAX + 100);
        let not_needed = Outcome::NotNeeded { detail: "no scheduler is named".into() };
        assert_eq!(words("drain", &not_needed), "drain the host: not needed: no scheduler is named");
        let gone = Outcome::Gone { detail: "no error for an hour".into() };
        assert_eq!(words("recheck", &gone), "check whether the fault persists: done: no error for an hour");
    }
}
