//! What a policy file says that is no error and most likely a slip: nobody would notice it before the night in which it counts.

use super::parse::{stretches, unverified};
use super::{ANY_SERVICE, Match, Policies, Policy};
use crate::Step;
use surefoot_model::Room;

/// The most that are told; the rest is counted.
const TOLD_MAX: usize = 20;

impl Policies {
    /// What looks like a slip, a sentence each; at most 21.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = self.unreached();
        doubts.extend(self.policies.iter().filter(|policy| self.is_of_no_service(policy)).map(|policy| {
            let Policy { name, service, .. } = policy;
            format!(
                "policy '{name}': no [[service]] is called '{service}', so that its hosts have no scheduler and only those \
                 count that tell of themselves"
            )
        }));
        doubts.extend(self.policies.iter().flat_map(faults_of_no_room));
        doubts.extend(self.policies.iter().filter_map(unchecked_repair));
        let is_any = self.policies.iter().any(|policy| policy.service == ANY_SERVICE);
        let of_none = |name: &&str| !is_any && !self.policies.iter().any(|policy| policy.service == **name);
        let services = self.services.iter().map(|service| service.name.as_str()).filter(of_none);
        doubts.extend(services.map(|name| format!("service '{name}': no policy is for it")));
        let is_run = |path: &str| self.hooks_run().contains(&path);
        let hooks = self.hooks.iter().filter(|hook| !is_run(&hook.path));
        doubts.extend(hooks.map(|hook| format!("hook '{}': no step runs it", hook.path)));
        if self.tickets.is_empty() {
            doubts.push("no [[ticket]] configured: cases that need manual action are reported nowhere".into());
        }
        short(doubts)
    }

    /// The executables of all steps, each once.
    pub(crate) fn hooks_run(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        for step in self.policies.iter().flat_map(|policy| &policy.steps) {
            match step {
                Step::Run(path) if !paths.contains(&path.as_str()) => paths.push(path),
                _ => {}
            }
        }
        paths
    }

    /// Policies that no alert reaches, because one before them takes every alert that they would.
    fn unreached(&self) -> Vec<String> {
        let takes_all_of = |earlier: &Policy, later: &Policy| {
            (earlier.service == ANY_SERVICE || earlier.service == later.service)
                && (earlier.matching == Match::default() || earlier.matching == later.matching)
        };
        let before = |(index, later): (usize, &Policy)| {
            let earlier = self.policies[..index].iter().find(|earlier| takes_all_of(earlier, later))?;
            let (later, earlier) = (&later.name, &earlier.name);
            Some(format!("policy '{later}': no alert reaches it, since policy '{earlier}' before it takes them all"))
        };
        self.policies.iter().enumerate().filter_map(before).collect()
    }

    fn is_of_no_service(&self, policy: &Policy) -> bool {
        policy.service != ANY_SERVICE && !self.services.is_empty() && self.service(&policy.service).is_none()
    }
}

/// Faults of a policy that are written as those of findings and whose room is none, or another than the policy's own.
fn faults_of_no_room(policy: &Policy) -> Vec<String> {
    let Policy { name, matching, .. } = policy;
    let doubt = |fault: &String| {
        let room = fault.split_once('/')?.0;
        if !Room::ALL.iter().any(|one| one.as_str() == room) {
            let rooms = Room::ALL.map(Room::as_str).join(", ");
            return Some(format!("policy '{name}': fault '{fault}' is of no room; there are {rooms}"));
        }
        let other = matching.room.filter(|own| own.as_str() != room)?;
        Some(format!("policy '{name}': fault '{fault}' is none of the room {other}, which it names, too"))
    };
    matching.fault.iter().filter_map(doubt).collect()
}

/// A policy that returns a host without a look at what its repair did.
fn unchecked_repair(policy: &Policy) -> Option<String> {
    let repair = stretches(&policy.steps).find_map(unverified).filter(|_| policy.is_unverified)?;
    let name = &policy.name;
    Some(format!(
        "policy '{name}': verify = \"none\", so nothing looks between '{repair}' and 'return' whether the repair helped"
    ))
}

/// The first of them, and how many more there are.
pub(crate) fn short(mut doubts: Vec<String>) -> Vec<String> {
    let more = doubts.len().saturating_sub(TOLD_MAX);
    doubts.truncate(TOLD_MAX);
    if more > 0 {
        doubts.push(format!("and {more} more of this kind"));
    }
    doubts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn doubts(text: &str) -> Vec<String> {
        Policies::parse(text, "policy.toml").unwrap().doubts()
    }

    #[test]
    fn a_file_without_slips_is_in_no_doubt() {
        let text = "[[policy]]\nservice = \"web\"\nmatch = { room = \"memory\" }\nsteps = [\"drain\", \"run:/x\", \"recheck\", \"return\"]\n\
                    [[policy]]\nservice = \"web\"\nsteps = [\"ticket:desk\"]\n[[service]]\nname = \"web\"\n\
                    [[hook]]\npath = \"/x\"\n[[ticket]]\nname = \"desk\"\ndirectory = \"/t\"\n";
        assert_eq!(doubts(text), Vec::<String>::new());
    }

    #[test]
    fn slips_are_told_by_name() {
        let text = "[[policy]]\nservice = \"db\"\nsteps = [\"drain\", \"run:/x\"]\n\
                    [[policy]]\nname = \"late\"\nservice = \"db\"\nmatch = { room = \"nic\" }\nsteps = [\"drain\"]\n\
                    [[policy]]\nmatch = { room = \"nic\", fault = [\"memry/rate\", \"memory/rate\"] }\nsteps = [\"drain\"]\n\
                    [[service]]\nname = \"dbs\"\n[[hook]]\npath = \"/y\"\n";
        let said = doubts(text).join("\n");
        for part in [
            "policy 'late': no alert reaches it, since policy 'db-1'",
            "no [[service]] is called 'db'",
            "policy 'any-3': fault 'memry/rate' is of no room; there are stall, memory",
            "policy 'any-3': fault 'memory/rate' is none of the room nic",
            "hook '/y': no step runs it",
            "no [[ticket]] configured",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }

    #[test]
    fn a_service_without_a_policy_is_told() {
        let said =
            doubts("[[policy]]\nservice = \"db\"\nsteps = [\"drain\"]\n[[service]]\nname = \"dbs\"\n").join("\n");
        assert!(said.contains("service 'dbs': no policy is for it"), "{said}");
    }

    #[test]
    fn a_host_that_is_returned_without_a_look_at_its_repair_is_told() {
        let of = |steps: &str| {
            doubts(&format!("[[policy]]\nsteps = [{steps}]\nverify = \"none\"\n[[hook]]\npath = \"/x\"\n")).join("\n")
        };
        for steps in [
            "\"drain\", \"run:/x\", \"return\"",
            "\"recheck\", \"drain\", \"stress:1h\", \"run:/x\", \"return\", \"recheck\"",
            "\"drain\", \"run:/x\", \"stress:1h\", \"offline-page\", \"return\"",
        ] {
            assert!(of(steps).contains("nothing looks between"), "{steps}: {}", of(steps));
        }
        for steps in
            ["\"drain\", \"run:/x\", \"stress:1h\", \"return\"", "\"drain\", \"stress:1h\", \"return\"", "\"run:/x\""]
        {
            assert!(!of(steps).contains("nothing looks"), "{steps}: {}", of(steps));
        }
        let usual = doubts("[[policy]]\nsteps = [\"drain\", \"run:/x\", \"return\"]\n").join("\n");
        assert!(!usual.contains("nothing looks"), "it is verified by default: {usual}");
    }

    #[test]
    fn many_doubts_are_cut_and_counted() {
        let text: String = (0..30).map(|at| format!("[[policy]]\nname = \"p{at}\"\nsteps = [\"drain\"]\n")).collect();
        let said = doubts(&text);
        assert_eq!((said.len(), said.last().unwrap().as_str()), (21, "and 10 more of this kind"));
    }
}
