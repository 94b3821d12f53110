//! Recovery of interfaces that hang: decided, or also done and recorded.

use crate::decide::{self, Device, Policy};
use crate::devlink::Devlink;
use crate::{Error, act, read};
use std::fmt;
use surefoot_hostfs::{Root, clock};
use surefoot_journal::deeds::{Read, Record, Unusable};
use surefoot_model::{
    Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Interface, InterfaceLook, Withheld,
};
use surefoot_sys::netlink::Socket;
use surefoot_sys::signals;

/// The next step of each interface that hangs.
#[derive(Debug, Default)]
pub struct Steps {
    /// Planned, withheld, done or failed.
    pub deeds: Vec<Deed>,
    /// Lines of the journal that could not be read. The limits do not count the steps in them.
    pub unread_count: u64,
    /// Why it ended before all interfaces had their turn: what cannot be recorded is not done.
    pub stopped: Option<Stopped>,
}

/// What ended a recovery early.
#[derive(Debug)]
pub struct Stopped {
    /// Whose turn it was.
    pub interface: String,
    /// Whether its step was done, and only what came of it could not be recorded.
    pub was_done: bool,
    /// Why it could not be recorded.
    pub why: Unusable,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stopped { interface, why, .. } = self;
        match self.was_done {
            true => write!(
                f,
                "{interface}: the step was done, but its outcome is not recorded: {why}; no other interface was changed after it"
            ),
            false => write!(f, "{interface}: not changed, because the step cannot be recorded: {why}"),
        }
    }
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

/// What comes next for an interface.
enum Next {
    /// A link cycle that was begun, and is to be ended.
    Again(Deed),
    /// A step that is withheld.
    Told(Deed),
    /// A step to do.
    Do(Deed),
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
        Ok(Steps { deeds: again.chain(next).collect(), unread_count: read.skipped_count, stopped: None })
    }

    /// Does it. The journal is not opened where nothing is to be done. While the kernel acts, other processes can record what they
    /// do; only another recovery waits.
    ///
    /// # Errors
    /// [`Error::File`] when the journal cannot be used; nothing was changed then. What happens to it later is in
    /// [`Steps::stopped`].
    pub fn run(&self, look: &InterfaceLook) -> Result<Steps, Error> {
        let read = self.record.look().map_err(unusable)?;
        let now_ns = clock::realtime_ns();
        let is_unfinished = |one: &Interface| decide::unfinished_cycle(&one.name, &read.deeds, now_ns).is_some();
        let mut steps = Steps { unread_count: read.skipped_count, ..Steps::default() };
        if !look.interfaces.iter().any(|one| is_unfinished(one) || self.next(one, &Read::default()).is_some()) {
            return Ok(steps);
        }
        let _alone = self.record.alone().map_err(unusable)?;
        let mut devlink = Devlink::open().ok();
        for one in &look.interfaces {
            // A signal waits: an interface stays neither switched off nor without a line of what was done.
            let _held = signals::hold();
            if let Err((why, was_done)) = self.step(one, &mut steps, devlink.as_mut()) {
                steps.stopped = Some(Stopped { interface: one.name.clone(), was_done, why });
                break;
            }
        }
        Ok(steps)
    }

    /// The step of one interface; the error says whether it was done all the same.
    fn step(
        &self,
        one: &Interface,
        steps: &mut Steps,
        devlink: Option<&mut Devlink<Socket>>,
    ) -> Result<(), (Unusable, bool)> {
        let mut next = None;
        let recorded = self.record.decide(|read| {
            steps.unread_count = read.skipped_count;
            next = self.decided(one, read);
            match &next {
                // Its beginning is recorded.
                Some(Next::Again(_)) | None => None,
                // A watch that withholds the same step at each look says so once.
                Some(Next::Told(step)) => is_news(&read.deeds, step).then(|| step.clone()),
                Some(Next::Do(step)) => Some(step.with_outcome(DeedOutcome::Begun, step.begun_realtime_ns)),
            }
        });
        recorded.map_err(|why| (why, false))?;
        let done = match next {
            None => return Ok(()),
            Some(Next::Told(step)) => {
                steps.deeds.push(step);
                return Ok(());
            }
            Some(Next::Again(begun)) => {
                let outcome = act::switch_on_again(self.root, &one.name);
                let done = begun.with_outcome(outcome, clock::realtime_ns());
                Deed { actor: self.actor.clone(), reason: DeedReason::Unfinished, ..done }
            }
            Some(Next::Do(step)) => {
                let outcome = act::apply(self.root, devlink, one, &step);
                step.with_outcome(outcome, clock::realtime_ns())
            }
        };
        steps.deeds.push(done.clone());
        self.record.append(&done).map_err(|why| (why, true))
    }

    fn decided(&self, one: &Interface, read: &Read) -> Option<Next> {
        // Looked for anew: the process that began it may have been at its step until now.
        if let Some(begun) = decide::unfinished_cycle(&one.name, &read.deeds, clock::realtime_ns()) {
            return Some(Next::Again(begun.clone()));
        }
        let step = self.next(one, read)?;
        Some(if step.outcome == DeedOutcome::Planned { Next::Do(step) } else { Next::Told(step) })
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
        let long_ago_ns = clock::realtime_ns() - 2 * decide::HOUR_NS;
        let old =
            Deed { at_realtime_ns: long_ago_ns, ..decide::tests::step(DeedAction::LinkCycle, 0, DeedOutcome::Begun) };
        std::fs::remove_file(root.path(deeds::FILE)).unwrap();
        recovery(&root).record.append(&old).unwrap();
        assert_eq!(run(&root, &hung(true)).deeds[0].outcome.as_str(), "done");
    }

    #[test]
    fn a_cycle_begun_in_a_time_to_come_is_left_alone() {
        let tree = HostTree::new().file("sys/class/net/eth0/flags", "0x1002\n");
        let root = Root::at(tree.path());
        let ahead_ns = clock::realtime_ns() + 10 * decide::HOUR_NS;
        let begun = decide::tests::step(DeedAction::LinkCycle, 0, DeedOutcome::Begun);
        recovery(&root).record.append(&Deed { begun_realtime_ns: ahead_ns, ..begun }).unwrap();
        let down = InterfaceLook {
            interfaces: vec![Interface { state: InterfaceState::Ok, ..hung(false).interfaces.remove(0) }],
            ..InterfaceLook::default()
        };
        assert!(recovery(&root).plan(&down).unwrap().deeds.is_empty());
        assert!(run(&root, &down).deeds.is_empty());
        assert_eq!(std::fs::read_to_string(root.path("sys/class/net/eth0/flags")).unwrap().trim(), "0x1002");
    }

    #[test]
    fn what_was_done_is_told_also_where_its_outcome_cannot_be_recorded() {
        let tree =
            HostTree::new().file("sys/class/net/eth0/flags", "0x1003\n").file("sys/class/net/eth1/flags", "0x1003\n");
        let root = Root::at(tree.path());
        let mut look = hung(true);
        look.interfaces.push(Interface { name: "eth1".into(), ..look.interfaces[0].clone() });
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("journal");
        let on_file = || Recovery { record: Record::File(path.clone()), ..recovery(&root) };
        assert_eq!(on_file().run(&look).unwrap().deeds.len(), 2);
        let lines: Vec<usize> = std::fs::read_to_string(&path).unwrap().lines().map(|line| line.len() + 1).collect();
        // Empty lines are no deeds, and take room.
        for (room, told, is_done) in
            [(lines[0] - 9, 0, false), (lines[0] + 9, 1, true), (lines[0] + lines[1] + 9, 1, false)]
        {
            let limit = usize::try_from(deeds::LIMITS.file_bytes).unwrap();
            std::fs::write(&path, vec![b'\n'; limit - room]).unwrap();
            let steps = on_file().run(&look).unwrap();
            let stopped = steps.stopped.unwrap();
            assert_eq!((steps.deeds.len(), stopped.was_done), (told, is_done), "{stopped}");
            let interface = if told == 1 && !is_done { "eth1" } else { "eth0" };
            let wanted = if is_done { "the step was done, but its outcome is not recorded" } else { "not changed" };
            assert!(stopped.to_string().starts_with(&format!("{interface}: {wanted}")), "{stopped}");
        }
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
