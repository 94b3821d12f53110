//! What the steps of policies need and this machine has not: told when the policies are read, before the night in which it counts.

use super::debug_mode::Adapter;
use super::hands::ADAPTERS;
use super::hook;
use crate::Step;
use crate::policy::doubts::short;
use crate::policy::{Drain, Policies, TicketWay};
use std::path::Path;
use surefoot_sys::program;

/// What is missing here, a sentence each; at most 21. Steps whose parts stand on the hosts themselves are left out.
pub fn doubts(policies: &Policies) -> Vec<String> {
    let broken = |path: &str| hook::trusted(Path::new(path)).err().map(|why| format!("step 'run:{path}': {why}"));
    let mut doubts: Vec<String> = policies.hooks_run().into_iter().filter_map(broken).collect();
    let folder = policies.debug.adapters.as_deref().unwrap_or(Path::new(ADAPTERS));
    let mut adapters: Vec<&str> =
        policies.policies.iter().flat_map(|policy| &policy.steps).filter_map(adapter).collect();
    adapters.sort_unstable();
    adapters.dedup();
    doubts.extend(adapters.iter().filter_map(|name| Adapter::read(folder, name).err()).map(|error| error.to_string()));
    let is_slurm = policies.services.iter().any(|service| service.drain == Drain::Slurm);
    for name in ["scontrol", "squeue"].into_iter().filter(|name| is_slurm && program::find(name).is_none()) {
        doubts.push(format!(
            "drain = \"slurm\": {name} is not in any folder of the system's programs; install slurm-client"
        ));
    }
    doubts.extend(policies.tickets.iter().filter_map(|ticket| {
        let why = match &ticket.way {
            TicketWay::Email { .. } if program::find("sendmail").is_none() => "sendmail is not installed".to_owned(),
            TicketWay::Directory { path } if !path.is_dir() => format!("{} is no directory", path.display()),
            _ => return None,
        };
        Some(format!("ticket '{}': {why}", ticket.name))
    }));
    short(doubts)
}

/// The adapter that a step needs.
fn adapter(step: &Step) -> Option<&str> {
    match step {
        Step::Debug(name) | Step::SoftRepair(name) | Step::HardRepair(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_steps_need_and_is_not_here_is_told() {
        let text = "[[policy]]\nsteps = [\"run:/not/there\", \"drain\", \"debug:maker\", \"restore:debug:maker\", \"ticket:desk\"]\n\
                    [[ticket]]\nname = \"desk\"\ndirectory = \"/not/tickets\"\n[debug]\nadapters = \"/not/adapters\"\n";
        let said = doubts(&Policies::parse(text, "policy.toml").unwrap()).join("\n");
        for part in [
            "step 'run:/not/there': /not/there cannot be found",
            "/not/adapters",
            "ticket 'desk': /not/tickets is no directory",
        ] {
            assert!(said.contains(part), "{part}\n{said}");
        }
    }

    #[test]
    fn what_is_here_is_not_told() {
        let text = "[[policy]]\nsteps = [\"run:/bin/sh\"]\n[[ticket]]\nname = \"desk\"\ndirectory = \"/tmp\"\n";
        assert_eq!(doubts(&Policies::parse(text, "policy.toml").unwrap()), Vec::<String>::new());
    }
}
