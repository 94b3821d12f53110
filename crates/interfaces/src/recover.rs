//! Recovery of interfaces that hang: decided, or also done and recorded.

use crate::decide::{self, Device, Policy};
use crate::devlink::Devlink;
use crate::{Error, act, read};
use surefoot_hostfs::netlink::Socket;
use surefoot_hostfs::{Root, clock, signals};
use surefoot_journal::deeds::{Journal, Read, Record, Unusable};
use surefoot_model::{
    Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Interface, InterfaceLook, Withheld,
};

/// The next step of each interface that hangs.
#[derive(Debug, Default)]
pub struct Steps {
    /// Planned, withheld, done or failed.
    pub deeds: Vec<Deed>,
    /// Lines of the journal that could not be read. The limits do not count the steps in them.
    pub unread_count: u64,
}

/// A recovery, as far as it goes without changing anything.
#[derive(Debug)]
pub struct Recovery<'a> {
    /// The host.
    pub root: &'a Root,
    /// What is allowed.
    pub policy: Policy,
    /// Who asks for it.
    pub actor: Actor,
    /// Where it is recorded. The limits count the steps there, so they hold from one run to the next.
    pub record: Record,
}

impl Recovery<'_> {
    /// What would be done.
    ///
    /// # Errors
    /// [`Error::File`] when the journal exists and cannot be read.
    pub fn plan(&self, look: &InterfaceLook) -> Result<Steps, Error> {
        let read = self.record.look().map_err(unusable)?;
        let again = look.interfaces.iter().filter_map(|one| {
            let begun =
                decide::unfinished_cycle(&one.name, &read.deeds, clock::realtime_ns()).filter(|_| !one.is_up)?;
            let reason = DeedReason::Unfinished;
            Some(Deed { reason, ..begun.with_outcome(DeedOutcome::Planned, clock::realtime_ns()) })
        });
        let next = look.interfaces.iter().filter_map(|one| self.next(one, &read));
        Ok(Steps { deeds: again.chain(next).collect(), unread_count: read.skipped_count })
    }

    /// Does it. The journal is not opened where nothing is to be done.
    ///
    /// # Errors
    /// [`Error::File`] when the journal cannot be used: what cannot be recorded is not done.
    pub fn run(&self, look: &InterfaceLook) -> Result<Steps, Error> {
        let read = self.record.look().map_err(unusable)?;
        let now_ns = clock::realtime_ns();
        let is_unfinished = |one: &Interface| decide::unfinished_cycle(&one.name, &read.deeds, now_ns).is_some();
        if !look.interfaces.iter().any(|one| is_unfinished(one) || self.next(one, &Read::default()).is_some()) {
            return Ok(Steps { deeds: Vec::new(), unread_count: read.skipped_count });
        }
        let mut journal = self.record.open().map_err(unusable)?;
        let mut devlink = Devlink::open().ok();
        let mut steps = Steps { unread_count: journal.read.skipped_count, ..Steps::default() };
        for one in &look.interfaces {
            // A signal waits: an interface stays neither switched off nor without a line of what was done.
            let _held = signals::hold();
            steps.deeds.extend(self.step(one, &mut journal, devlink.as_mut())?);
        }
        Ok(steps)
    }

    fn step(
        &self,
        one: &Interface,
        journal: &mut Journal,
        devlink: Option<&mut Devlink<Socket>>,
    ) -> Result<Option<Deed>, Error> {
        let now_ns = clock::realtime_ns();
        // Looked for anew: the process that began it may have been at its step until now.
        if let Some(begun) = decide::unfinished_cycle(&one.name, &journal.read.deeds, now_ns).cloned() {
            let outcome = act::switch_on_again(self.root, &one.name);
            let done = begun.with_outcome(outcome, clock::realtime_ns());
            let done = Deed { actor: self.actor.clone(), reason: DeedReason::Unfinished, ..done };
            journal.write(&done).map_err(unusable)?;
            return Ok(Some(done));
        }
        let Some(step) = self.next(one, &journal.read) else { return Ok(None) };
        if step.outcome != DeedOutcome::Planned {
            // A watch that withholds the same step at each look says so once.
            if is_news(&journal.read.deeds, &step) {
                journal.write(&step).map_err(unusable)?;
            }
            return Ok(Some(step));
        }
        journal.write(&step.with_outcome(DeedOutcome::Begun, step.begun_realtime_ns)).map_err(unusable)?;
        let outcome = act::apply(self.root, devlink, one, &step);
        let done = step.with_outcome(outcome, clock::realtime_ns());
        journal.write(&done).map_err(unusable)?;
        Ok(Some(done))
    }

    fn next(&self, one: &Interface, history: &Read) -> Option<Deed> {
        let (can_reset, carries) = (act::can_reset(self.root, &one.name), read::carried_beside(self.root, &one.name));
        let device = Device { can_reset, carries };
        let now_ns = clock::realtime_ns();
        let step = decide::decide(one, &history.deeds, now_ns, &device, &self.policy, &self.actor)?;
        let count = history.unread_since(now_ns.saturating_sub(decide::HOUR_NS));
        let is_unsure = step.outcome == DeedOutcome::Planned && count > 0;
        let outcome = if is_unsure { DeedOutcome::Withheld { why: Withheld::Unread { count } } } else { step.outcome };
        Some(Deed { outcome, ..step })
    }
}

/// Whether a step says something else than the last one of the same interface; times and counts of seconds are not compared.
fn is_news(deeds: &[Deed], step: &Deed) -> bool {
    let same_interface = |deed: &&Deed| decide::is_of(deed, &step.subject.name);
    deeds.iter().rev().find(same_interface).is_none_or(|last| said(last) != said(step))
}

/// What a person would call the same.
fn said(deed: &Deed) -> (DeedAction, &DeedTarget, &'static str, Option<std::mem::Discriminant<Withheld>>) {
    let why = match &deed.outcome {
        DeedOutcome::Withheld { why } => Some(std::mem::discriminant(why)),
        _ => None,
    };
    (deed.action, &deed.target, deed.outcome.as_str(), why)
}

fn unusable(error: Unusable) -> Error {
    Error::File { path: error.path, why: format!("{}; nothing was changed", error.why) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_journal::deeds;
    use surefoot_model::{InterfaceState, Room};
    use surefoot_testkit::HostTree;

    fn hung(is_up: bool) -> InterfaceLook {
        let one = Interface {
            name: "eth0".into(),
            is_up,
            state: InterfaceState::Hung,
            certainty: Some(surefoot_model::Certainty::Certain),
            evidence: vec!["its send queue is stuck".into()],
            ..Interface::default()
        };
        InterfaceLook { interfaces: vec![one], ..InterfaceLook::default() }
    }

    fn recovery(root: &Root) -> Recovery<'_> {
        let record = Record::OfHost(root.path("/"));
        Recovery { root, policy: Policy::default(), actor: Actor::Command { uid: 0 }, record }
    }

    fn outcomes(root: &Root) -> Vec<String> {
        let read = recovery(root).record.look().unwrap();
        assert!(read.deeds.iter().all(|deed| deed.room == Room::Nic && deed.subject.name == "eth0"));
        read.deeds.iter().map(Deed::words).collect()
    }

    fn run(root: &Root, look: &InterfaceLook) -> Steps {
        recovery(root).run(look).unwrap()
    }

    #[test]
    fn a_step_is_recorded_before_and_after_and_a_dry_run_records_nothing() {
        let tree = HostTree::new().file("sys/class/net/eth0/flags", "0x1003\n");
        let root = Root::at(tree.path());
        let planned = recovery(&root).plan(&hung(true)).unwrap().deeds;
        assert_eq!(planned[0].words(), "switch the link off and on: planned");
        assert!(outcomes(&root).is_empty() && !root.path("/var/lib/surefoot").exists());
        let done = run(&root, &hung(true)).deeds;
        assert_eq!(done.len(), 1);
        let said = "switch the link off and on: done: switched off and on; IPv6 addresses and routes on it may have to be set again";
        assert_eq!(outcomes(&root), ["switch the link off and on: begun", said]);
        assert!(done[0].at_realtime_ns >= done[0].begun_realtime_ns);
        // The next step waits; a watch that looks every second says so once.
        for _ in 0..3 {
            assert_eq!(run(&root, &hung(true)).deeds[0].outcome.as_str(), "withheld");
        }
        assert_eq!(outcomes(&root).len(), 3);
    }

    #[test]
    fn a_cycle_that_was_cut_short_is_ended_and_said_to_be() {
        let tree = HostTree::new().file("sys/class/net/eth0/flags", "0x1002\n");
        let root = Root::at(tree.path());
        let begun = Deed {
            begun_realtime_ns: clock::realtime_ns(),
            ..decide::tests::step(DeedAction::LinkCycle, 0, DeedOutcome::Begun)
        };
        recovery(&root).record.append(&begun).unwrap();
        let planned = recovery(&root).plan(&hung(false)).unwrap().deeds;
        assert_eq!((planned[0].outcome.as_str(), &planned[0].reason), ("planned", &DeedReason::Unfinished));
        let done = run(&root, &hung(false)).deeds;
        assert_eq!(done[0].outcome.detail(), "the process that began it ended between off and on; switched on now");
        assert_eq!(std::fs::read_to_string(root.path("sys/class/net/eth0/flags")).unwrap().trim(), "0x1003");
        assert_eq!(done[0].begun_realtime_ns, begun.begun_realtime_ns);
    }

    #[test]
    fn nothing_is_done_that_cannot_be_recorded_and_unreadable_lines_are_counted() {
        let tree = HostTree::new()
            .file("sys/class/net/eth0/flags", "0x1003\n")
            .file("var/lib/surefoot/nic-recovery.jsonl", "of another release\n");
        let root = Root::at(tree.path());
        let planned = recovery(&root).plan(&hung(true)).unwrap();
        assert_eq!((planned.unread_count, planned.deeds[0].outcome.as_str()), (1, "withheld"));
        std::fs::create_dir(root.path(deeds::FILE)).unwrap();
        let error = recovery(&root).run(&hung(true)).unwrap_err().to_string();
        assert!(error.ends_with("nothing was changed"), "{error}");
        assert_eq!(std::fs::read_to_string(root.path("sys/class/net/eth0/flags")).unwrap().trim(), "0x1003");
        std::fs::remove_dir(root.path(deeds::FILE)).unwrap();
        let unsure = run(&root, &hung(true));
        let withheld = DeedOutcome::Withheld { why: Withheld::Unread { count: 1 } };
        assert_eq!(
            (unsure.unread_count, &unsure.deeds[0].outcome),
            (1, &withheld),
            "it may be a step of the last hour"
        );
        // What stands before a step of long ago is older still.
        let old = decide::tests::step(DeedAction::LinkCycle, 0, DeedOutcome::Begun);
        std::fs::remove_file(root.path(deeds::FILE)).unwrap();
        recovery(&root).record.append(&old).unwrap();
        assert_eq!(run(&root, &hung(true)).deeds[0].outcome.as_str(), "done");
    }

    #[test]
    fn of_two_interfaces_that_hang_neither_makes_the_others_step_news() {
        let withheld = |name: &str| Deed {
            subject: surefoot_model::Subject::new(surefoot_model::SubjectKind::Interface, name),
            outcome: DeedOutcome::Withheld { why: Withheld::OnlyProbable },
            ..decide::tests::step(DeedAction::LinkCycle, 0, DeedOutcome::Planned)
        };
        let told = [withheld("eth0"), withheld("eth1")];
        assert!(!is_news(&told, &told[0]) && !is_news(&told, &told[1]) && is_news(&told, &withheld("eth2")));
        let why = Withheld::TooEarly { since_s: 1, grace_s: 60 };
        let other = Deed { outcome: DeedOutcome::Withheld { why }, ..withheld("eth0") };
        assert!(is_news(&told, &other), "another reason is news");
    }
}
