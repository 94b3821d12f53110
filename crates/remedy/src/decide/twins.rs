//! One machine under two names: its short name and the whole one, or the address at which Prometheus asks it.
//!
//! Whether two such names are of one machine is not known unless the policy file says so. Neither is guessed: a case of the one waits while a case
//! of the other is at work, and says what to write into the policy file.

use crate::World;
use crate::policy::Policies;
use std::collections::HashMap;
use std::net::IpAddr;
use surefoot_outside::host_name::is_same_host;

/// Cases that hold their hosts, by everything under which a host may be known.
#[derive(Debug, Default)]
pub(super) struct Twins {
    by_key: HashMap<(String, bool), Vec<(String, u64)>>,
}

/// A case that holds what is, or may be, the same host under another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Twin {
    pub(super) case: u64,
    pub(super) host: String,
    /// Why the two names may be of one machine; `None` where the policy file says that they are.
    pub(super) why: Option<String>,
}

impl Twin {
    /// What a case of the other name waits for.
    pub(super) fn says(&self, host: &str) -> String {
        let Twin { case, host: other, why } = self;
        match why {
            None => format!("case {case} of the same host as {other}, until it is closed"),
            Some(why) => format!(
                "case {case} of {other}, until it is closed: {other} may be the same machine as {host} ({why}). If it is, write [[host]] name = \"{other}\" \
                 also = [\"{host}\"] into the policy file; if not, a [[host]] for each"
            ),
        }
    }
}

impl Twins {
    /// Notes that a case holds its host.
    pub(super) fn note(&mut self, world: &World, policies: &Policies, host: &str, is_dry_run: bool, case: u64) {
        for key in keys(world, policies, host) {
            let of_key = self.by_key.entry((key, is_dry_run)).or_default();
            if !of_key.iter().any(|(other, _)| other == host) {
                of_key.push((host.to_owned(), case));
            }
        }
    }

    /// A case of another name that holds what is, or may be, this host.
    pub(super) fn of(&self, world: &World, policies: &Policies, host: &str, is_dry_run: bool) -> Option<Twin> {
        keys(world, policies, host).into_iter().find_map(|key| {
            let of_key = self.by_key.get(&(key, is_dry_run))?;
            of_key.iter().filter(|(other, _)| other != host).find_map(|(other, case)| {
                let why = match same(world, policies, host, other) {
                    Same::Declared => None,
                    Same::Perhaps(why) => Some(why),
                    Same::No => return None,
                };
                Some(Twin { case: *case, host: other.clone(), why })
            })
        })
    }
}

/// Whether two names are of one machine.
enum Same {
    /// The policy file says so.
    Declared,
    /// Nothing is known for or against it but this.
    Perhaps(String),
    /// The policy file names both as hosts of their own, or nothing hints at it.
    No,
}

fn same(world: &World, policies: &Policies, one: &str, other: &str) -> Same {
    match (policies.hosts.of(one), policies.hosts.of(other)) {
        ([name, ..], [of_other, ..]) if name == of_other => return Same::Declared,
        ([_, ..], [_, ..]) => return Same::No,
        _ => {}
    }
    if is_same_host(one, other) {
        return Same::Perhaps("one is the first label of the other".to_owned());
    }
    let machine = |host: &str| world.machines.get(host);
    let hardware = |host: &str| machine(host).and_then(|machine| machine.machine.hardware.as_ref());
    if hardware(one).is_some_and(|of_one| hardware(other) == Some(of_one)) {
        return Same::Perhaps("the agents of both report from the same hardware".to_owned());
    }
    let reports_from = |host: &str, address: &str| {
        let address = address_of(address);
        address.is_some() && machine(host).is_some_and(|known| address_of(&known.address) == address)
    };
    for (name, address) in [(one, other), (other, one)] {
        if reports_from(name, address) {
            return Same::Perhaps(format!("the agent of {name} reports from {address}"));
        }
    }
    Same::No
}

/// All under which a host may be found.
fn keys(world: &World, policies: &Policies, host: &str) -> Vec<String> {
    let mut keys: Vec<String> =
        policies.hosts.of(host).first().map(|name| format!("host {name}")).into_iter().collect();
    match address_of(host) {
        Some(address) => keys.push(format!("address {address}")),
        None => keys.push(format!("name {}", host.split('.').next().unwrap_or_default().to_ascii_lowercase())),
    }
    if let Some(known) = world.machines.get(host) {
        keys.extend(known.machine.hardware.as_ref().map(|hardware| format!("hardware {hardware}")));
        keys.extend(address_of(&known.address).map(|address| format!("address {address}")));
    }
    keys
}

/// An address in its one form: that of IPv4 where it is one.
fn address_of(host: &str) -> Option<IpAddr> {
    host.parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::decide::{Controller, decide};
    use serde_json::json;
    use surefoot_model::{Case, CaseChange, KnownMachine, MachineId};

    const NOW_NS: u64 = 1_800_000_000_000_000_000;

    fn case(id: u64, host: &str, began_ns: u64) -> Case {
        let state = if began_ns == 0 { "waiting" } else { "running" };
        serde_json::from_value(json!({
            "id": id, "host": host, "service": "web", "fault": "memory/rate", "subject": "", "alert_key": "k",
            "severity": "warning", "sentence": "", "policy": "any-1", "state": state, "is_firing": true, "is_drained": false,
            "since_realtime_ns": 1, "began_realtime_ns": began_ns, "state_since_realtime_ns": 1, "revision": 1,
            "steps": [{ "step": "reboot", "state": "pending", "attempt_count": 0 }],
        }))
        .unwrap()
    }

    /// What becomes of each case: `begun`, or what it waits for.
    fn decided(cases: &[Case], machines: &[(&str, KnownMachine)], more: &str) -> Vec<String> {
        let text = format!("[[policy]]\nsteps = [\"drain\", \"reboot\"]\nhosts_at_once = 9\n{more}");
        let policies = Policies::parse(&text, "p").unwrap();
        let machines = machines.iter().map(|(host, machine)| ((*host).to_owned(), machine.clone())).collect();
        let service_hosts = [("web".to_owned(), 100)].into();
        let world =
            World { now_realtime_ns: NOW_NS, open: cases.to_vec(), machines, service_hosts, ..World::default() };
        let controller = Controller { name: "c".into(), free_count: 9, lease_ns: 1 };
        let changes = decide(&world, &policies, &controller);
        let said = changes.into_iter().map(|(change, line)| match change {
            CaseChange::Update(case) if line.action == "waits" => case.waits_for,
            _ => line.action,
        });
        said.collect()
    }

    fn two(one: &str, other: &str, machines: &[(&str, KnownMachine)], more: &str) -> (String, String) {
        let mut said = decided(&[case(1, one, 0), case(2, other, 0)], machines, more).into_iter();
        (said.next().unwrap(), said.next().unwrap())
    }

    #[test]
    fn two_names_that_may_be_one_machine_are_not_acted_on_at_once() {
        let (first, second) = two("n1", "n1.example", &[], "");
        assert_eq!(first, "begun");
        assert!(
            second.starts_with("case 1 of n1, until it is closed: n1 may be the same machine as n1.example"),
            "{second}"
        );
        assert!(
            second.contains("write [[host]] name = \"n1\" also = [\"n1.example\"] into the policy file"),
            "{second}"
        );
        // In either order, and where the first was begun long ago.
        assert!(two("n1.example", "n1", &[], "").1.starts_with("case 1 of n1.example"));
        let begun = decided(&[case(1, "n1", NOW_NS - 1), case(2, "n1.example", 0)], &[], "");
        assert!(begun[1].starts_with("case 1 of n1,"), "{begun:?}");
        // What the file says counts.
        let one = "[[host]]\nname = \"N1\"\nalso = [\"n1.example.\", \"worker-3\"]\n";
        assert_eq!(two("n1", "n1.example", &[], one).1, "case 1 of the same host as n1, until it is closed");
        assert_eq!(
            two("worker-3", "n1.example", &[], one).1,
            "case 1 of the same host as worker-3, until it is closed"
        );
        let separate = "[[host]]\nname = \"n1\"\n[[host]]\nname = \"n1.example\"\n";
        assert_eq!(two("n1", "n1.example", &[], separate).1, "begun");
        // One of them alone says nothing of the other.
        assert!(two("n1", "n1.example", &[], "[[host]]\nname = \"n1\"\n").1.starts_with("case 1 of n1,"));
        for (one, other) in
            [("n1", "n2"), ("n1.a", "n1.b"), ("n1", "n11.example"), ("10.0.0.7", "10.0.0.8"), ("n1", "10.0.0.7")]
        {
            assert_eq!(two(one, other, &[], "").1, "begun", "{one} {other}");
        }
    }

    #[test]
    fn what_agents_report_hints_at_one_machine_under_two_names() {
        let of = |hardware: &str, address: &str| KnownMachine {
            machine: MachineId { hardware: Some(hardware.into()), system: None },
            address: address.into(),
        };
        let said = two("n1", "10.0.0.7", &[("n1", of("h1", "::ffff:10.0.0.7"))], "").1;
        assert!(
            said.contains("n1 may be the same machine as 10.0.0.7 (the agent of n1 reports from 10.0.0.7)"),
            "{said}"
        );
        let said = two("2001:db8::7", "n1", &[("n1", of("h1", "2001:db8::7"))], "").1;
        assert!(said.contains("the agent of n1 reports from 2001:db8::7"), "{said}");
        let said = two("n1", "worker-3", &[("n1", of("h1", "10.0.0.7")), ("worker-3", of("h1", "10.0.0.8"))], "").1;
        assert!(said.contains("the agents of both report from the same hardware"), "{said}");
        // Two hosts behind one router.
        let behind = [("n1", of("h1", "10.0.0.1")), ("n2", of("h2", "10.0.0.1"))];
        assert_eq!(two("n1", "n2", &behind, "").1, "begun");
    }

    #[test]
    fn a_host_cools_down_and_counts_by_all_of_its_names() {
        let names = "[[host]]\nname = \"n1\"\nalso = [\"n1.example\"]\n";
        let policies = Policies::parse(&format!("[[policy]]\nsteps = [\"drain\", \"reboot\"]\n{names}"), "p").unwrap();
        let closed = Case {
            state: surefoot_model::CaseState::Returned,
            state_since_realtime_ns: NOW_NS - 1,
            ..case(1, "n1", NOW_NS - 2)
        };
        let world = World {
            now_realtime_ns: NOW_NS,
            closed: vec![closed],
            open: vec![case(2, "n1.example", 0)],
            ..World::default()
        };
        let controller = Controller { name: "c".into(), free_count: 9, lease_ns: 1 };
        let (change, _) = decide(&world, &policies, &controller).remove(0);
        let CaseChange::Update(case) = change else { panic!("{change:?}") };
        assert!(case.waits_for.starts_with("the cool-down of the host"), "{}", case.waits_for);
    }
}
