//! Looks at all interfaces, one after the other, and says what has changed since.

use crate::devlink::{Devlink, Reported};
use crate::judge::{Limits, judge_since};
use crate::reporter::is_same_trouble;
use crate::{Error, presence, read};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use surefoot_hostfs::{Root, clock};
use surefoot_model::{
    HealthReporter, Interface, InterfaceChange, InterfaceEvent, InterfaceLook, InterfaceProbe, InterfaceProblem,
    ReporterState, SelfTest,
};
use surefoot_sys::ethtool;
use surefoot_sys::netlink::{Socket, Transport};

/// What a counter did is told over this time, so that a fault does not vanish with the next look.
const MEMORY_NS: u64 = 60_000_000_000;
/// Reporters in error of one interface whose first look is kept; of further ones it is not known whether packets pass.
const REPORTERS_MAX: usize = 64;
/// Looks that are remembered.
const LOOKS_MAX: usize = 64;

/// Health reporters, and whether the kernel has any.
#[derive(Debug)]
enum Reporters {
    /// Nobody has asked yet.
    Unasked,
    /// The kernel answers.
    Open(Devlink<Socket>),
    /// It has none.
    Absent,
}

/// Looks at the interfaces of a host or of a recorded tree.
#[derive(Debug)]
pub struct Looker {
    root: Root,
    only: Option<String>,
    limits: Limits,
    reporters: Reporters,
    drivers: BTreeMap<String, Option<String>>,
    indices: BTreeMap<String, Option<u32>>,
    carried: Option<(u64, read::routes::Dependents)>,
    carried_for_ns: u64,
    before: VecDeque<(u64, BTreeMap<String, Interface>)>,
    /// By interface, the reporters in error with the look that saw them so first, and when that was.
    errors: BTreeMap<String, Vec<(HealthReporter, u64, Interface)>>,
}

impl Looker {
    /// A looker that has seen nothing.
    pub fn new(root: Root) -> Self {
        // The files that stay open are its own, so that they take nobody else's places.
        Looker {
            root: if root.is_host() { Root::host() } else { root },
            only: None,
            limits: Limits::default(),
            reporters: Reporters::Unasked,
            drivers: BTreeMap::new(),
            indices: BTreeMap::new(),
            carried: None,
            carried_for_ns: 0,
            before: VecDeque::new(),
            errors: BTreeMap::new(),
        }
    }

    /// At this interface alone.
    #[must_use]
    pub fn only(self, interface: Option<String>) -> Self {
        Looker { only: interface, ..self }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Looker { limits, ..self }
    }

    /// From now on with other limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Looks for what goes through each interface only this often: the kernel walks its whole table of connections to tell of
    /// sessions, which takes longer than everything else. For who does nothing about it.
    pub fn set_carried_for(&mut self, time: Duration) {
        self.carried_for_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Looks.
    pub fn look(&mut self) -> InterfaceLook {
        self.look_with(BTreeMap::new(), BTreeMap::new())
    }

    /// Looks, with what probes and self-tests of interfaces came to.
    pub fn look_with(
        &mut self,
        mut probes: BTreeMap<String, InterfaceProbe>,
        mut tests: BTreeMap<String, SelfTest>,
    ) -> InterfaceLook {
        let (at_ns, looked_realtime_ns) = (clock::monotonic_ns(), clock::realtime_ns());
        let mut look = InterfaceLook { at_ns, looked_realtime_ns, ..InterfaceLook::default() };
        let names = match (presence::unsupported(&self.root), read::names(&self.root, self.only.as_deref())) {
            (None, Ok((names, left_out))) => {
                look.interfaces_left_out = left_out;
                names
            }
            (why, _) => {
                look.unsupported = Some(why.map_or_else(String::new, |why| format!("{}; {}", why.why, why.remedy)));
                return look;
            }
        };
        let indices = names.iter().map(|name| (name.clone(), read::index(&self.root, name))).collect();
        if self.root.is_host() && indices != self.indices {
            // Another interface has this name now: neither its open files nor its driver are those of the one before.
            self.root = Root::host();
            self.drivers.clear();
            self.errors.clear();
        }
        self.indices = indices;
        let young = self.carried.take().filter(|(then_ns, _)| at_ns.saturating_sub(*then_ns) < self.carried_for_ns);
        let (since_ns, carried) = young.unwrap_or_else(|| (at_ns, read::routes::carried(&self.root)));
        let mut interfaces: Vec<Interface> =
            names.iter().filter_map(|name| read::interface(&self.root, name)).collect();
        for one in &mut interfaces {
            one.carries = carried.of(&one.name);
            if one.driver.is_none() {
                one.driver = self.driver(&one.name);
            }
            one.probe = probes.remove(&one.name);
            one.self_test = tests.remove(&one.name);
        }
        self.carried = Some((since_ns, carried));
        match self.reported() {
            Ok(Some(reported)) => add_reporters(&mut interfaces, reported),
            Ok(None) => {}
            Err(error) => look.problems.push(InterfaceProblem { path: "devlink".into(), why: error.to_string() }),
        }
        interfaces.retain(|one| self.only.as_ref().is_none_or(|only| *only == one.name));
        self.judge(&mut interfaces, at_ns);
        look.interfaces = interfaces;
        look.look_ns = clock::monotonic_ns().saturating_sub(at_ns);
        look
    }

    /// What changed between the two newest looks, and the newest look itself.
    pub fn events(&self, look: InterfaceLook) -> Vec<InterfaceEvent> {
        let before = self.before.iter().rev().nth(1).map(|(_, interfaces)| interfaces);
        let change = |now: &Interface| {
            let then = before?.get(&now.name)?;
            (then.state != now.state).then(|| {
                InterfaceEvent::Changed(InterfaceChange {
                    at_ns: look.at_ns,
                    at_realtime_ns: look.looked_realtime_ns,
                    interface: now.name.clone(),
                    from: then.state,
                    to: now.state,
                    evidence: now.evidence.clone(),
                })
            })
        };
        let mut events: Vec<InterfaceEvent> = look.interfaces.iter().filter_map(change).collect();
        events.push(InterfaceEvent::Look(look));
        events
    }

    fn judge(&mut self, interfaces: &mut [Interface], at_ns: u64) {
        // The oldest look that is young enough, and of older ones the newest.
        while self.before.len() > 1
            && self.before.get(1).is_some_and(|(then, _)| at_ns.saturating_sub(*then) >= MEMORY_NS)
        {
            self.before.pop_front();
        }
        self.note_errors(interfaces, at_ns);
        for one in interfaces.iter_mut() {
            let then = self.before.iter().find_map(|(then_ns, all)| Some((all.get(&one.name)?, at_ns - then_ns)));
            let errors = self.errors.get(&one.name);
            let first = |of: &HealthReporter| {
                let (_, then_ns, look) = errors?.iter().find(|(known, _, _)| is_same_trouble(of, known))?;
                Some((look, at_ns.saturating_sub(*then_ns))).filter(|(_, ago_ns)| *ago_ns > 0)
            };
            judge_since(one, then, &first, &self.limits);
        }
        if self.before.len() == LOOKS_MAX {
            // The first goes back the furthest; of the others a younger one tells the same.
            self.before.remove(1);
        }
        self.before.push_back((at_ns, interfaces.iter().map(|one| (one.name.clone(), one.clone())).collect()));
    }

    /// Keeps for each reporter in error the look that saw it so first, for as long as it is: packets that passed an hour ago say that it was no
    /// hang.
    fn note_errors(&mut self, interfaces: &[Interface], at_ns: u64) {
        self.errors.retain(|name, _| interfaces.iter().any(|one| one.name == *name));
        for one in interfaces {
            let mut in_error = one.reporters.iter().filter(|of| of.state == ReporterState::Error).peekable();
            if in_error.peek().is_none() {
                self.errors.remove(&one.name);
                continue;
            }
            let known = self.errors.remove(&one.name).unwrap_or_default();
            let of = |of: &HealthReporter| {
                let before = known.iter().find(|(then, _, _)| is_same_trouble(of, then)).cloned();
                before.unwrap_or_else(|| (of.clone(), at_ns, one.clone()))
            };
            let kept = in_error.take(REPORTERS_MAX).map(of).collect();
            self.errors.insert(one.name.clone(), kept);
        }
    }

    /// The driver by the kernel's word, asked once: virtual interfaces have no device that names it.
    fn driver(&mut self, name: &str) -> Option<String> {
        if !self.root.is_host() {
            return None;
        }
        if self.drivers.len() >= read::INTERFACES_MAX {
            self.drivers.clear();
        }
        self.drivers.entry(name.to_owned()).or_insert_with(|| ethtool::driver(name).ok()).clone()
    }

    fn reported(&mut self) -> Result<Option<Reported>, Error> {
        if !self.root.is_host() {
            return Ok(None);
        }
        if matches!(self.reporters, Reporters::Unasked) {
            self.reporters = match Devlink::open() {
                Ok(devlink) => Reporters::Open(devlink),
                Err(Error::Unsupported(_)) => Reporters::Absent,
                Err(error) => return Err(error),
            };
        }
        match &mut self.reporters {
            Reporters::Open(devlink) => devlink.reported().map(Some),
            _ => Ok(None),
        }
    }
}

/// What devlink over this transport says, added to the interfaces it is about. A device without an interface here stands for
/// itself, under devlink's name.
///
/// # Errors
/// As [`Devlink::reported`].
pub fn add_reported<T: Transport>(interfaces: &mut Vec<Interface>, devlink: &mut Devlink<T>) -> Result<(), Error> {
    add_reporters(interfaces, devlink.reported()?);
    Ok(())
}

fn add_reporters(interfaces: &mut Vec<Interface>, reported: Reported) {
    for reporter in reported.reporters {
        let of_port = |name: &str, port: Option<u32>| {
            let mut ports = reported.ports.iter().filter(|((device, _), _)| *device == reporter.device);
            ports.any(|((_, number), interface)| interface == name && port.is_none_or(|port| port == *number))
        };
        // A reporter of a port is of that port's interface; one of the device is of all of them.
        let is_of = |one: &Interface| {
            of_port(&one.name, reporter.port)
                || (reporter.port.is_none() && one.device.as_ref() == Some(&reporter.device))
        };
        let mut is_placed = false;
        for one in interfaces.iter_mut().filter(|one| is_of(one)) {
            one.reporters.push(reporter.clone());
            is_placed = true;
        }
        if !is_placed {
            match interfaces.iter_mut().find(|one| one.name == reporter.device) {
                Some(one) => one.reporters.push(reporter),
                None => interfaces.push(Interface {
                    name: reporter.device.clone(),
                    device: Some(reporter.device.clone()),
                    reporters: vec![reporter],
                    ..Interface::default()
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::InterfaceState;
    use surefoot_testkit::HostTree;

    fn tree() -> HostTree {
        HostTree::new()
            .file("sys/class/net/eth0/type", "1\n")
            .file("sys/class/net/eth0/flags", "0x1003\n")
            .file("sys/class/net/eth0/carrier", "1\n")
            .file("sys/class/net/eth0/queues/tx-0/tx_timeout", "4\n")
            .file("sys/class/net/eth0/statistics/rx_errors", "0\n")
            .file("sys/class/net/eth0/statistics/rx_missed_errors", "0\n")
            .file("sys/class/net/eth0/carrier_changes", "0\n")
            .file("sys/class/net/eth0/statistics/tx_errors", "0\n")
    }

    #[test]
    fn a_counter_that_moves_is_a_change_that_is_told_once() {
        let tree = tree();
        let mut looker = Looker::new(Root::at(tree.path()));
        let turn = |looker: &mut Looker| {
            let look = looker.look();
            looker.events(look)
        };
        assert!(matches!(&turn(&mut looker)[..], [InterfaceEvent::Look(_)]), "what was counted before is no news");
        tree.write("sys/class/net/eth0/queues/tx-0/tx_timeout", "5\n");
        let events = turn(&mut looker);
        let [InterfaceEvent::Changed(change), InterfaceEvent::Look(look)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((change.from, change.to), (InterfaceState::Ok, InterfaceState::Hung));
        assert_eq!((&change.evidence, look.interfaces[0].state), (&look.interfaces[0].evidence, InterfaceState::Hung));
        // It is still hung a moment later, and that is no change.
        let events = turn(&mut looker);
        assert!(
            matches!(&events[..], [InterfaceEvent::Look(look)] if look.interfaces[0].state == InterfaceState::Hung)
        );
    }

    #[test]
    fn what_goes_through_an_interface_is_looked_for_as_often_as_was_asked() {
        let route =
            |interface: &str| format!("Iface\n{interface}\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
        let tree = tree().file("proc/net/route", route("eth9")).folder("sys/class/net/eth9");
        let root = Root::at(tree.path());
        let mut rarely = Looker::new(root.clone());
        rarely.set_carried_for(Duration::from_secs(3600));
        let mut always = Looker::new(root);
        let carries = |looker: &mut Looker| !looker.look().interfaces[0].carries.is_empty();
        assert!(!carries(&mut rarely) && !carries(&mut always));
        tree.write("proc/net/route", route("eth0"));
        assert!(!carries(&mut rarely) && carries(&mut always));
    }

    #[test]
    fn many_looks_are_remembered_up_to_a_limit_and_one_interface_can_be_picked() {
        let tree = tree().file("sys/class/net/eth1/type", "1\n").file("sys/class/net/eth1/flags", "0x1002\n");
        let mut looker = Looker::new(Root::at(tree.path())).only(Some("eth0".into()));
        for _ in 0..LOOKS_MAX + 10 {
            assert_eq!(looker.look().interfaces.len(), 1);
        }
        assert_eq!(looker.before.len(), LOOKS_MAX);
        let nothing = Looker::new(Root::at(HostTree::new().path())).look();
        assert!(nothing.unsupported.is_some_and(|why| why.contains("class/net")));
    }

    /// Looks are forgotten after a minute, and that packets passed since the error is not.
    #[test]
    fn packets_since_an_error_are_remembered_for_as_long_as_the_error_lasts() {
        let at = |packets: u64, state: ReporterState| {
            let counters = surefoot_model::InterfaceCounters {
                tx_packets: Some(packets),
                rx_packets: Some(packets),
                rx_errors: Some(0),
                rx_missed_errors: Some(0),
                tx_errors: Some(0),
                ..Default::default()
            };
            let reporter = HealthReporter {
                device: "pci/0000:01:00.0".into(),
                port: None,
                name: "fw".into(),
                state,
                error_count: 1,
                recover_count: 0,
                has_dump: false,
                dump_realtime_ns: None,
                auto_recover: None,
                grace_period_ms: None,
            };
            let (is_up, carrier_change_count) = (true, Some(0));
            let reporters = vec![reporter];
            Interface { name: "eth0".into(), is_up, carrier_change_count, counters, reporters, ..Interface::default() }
        };
        let judged = |looker: &mut Looker, second: u64, packets: u64, state: ReporterState| {
            let mut interfaces = [at(packets, state)];
            looker.judge(&mut interfaces, second * 1_000_000_000);
            interfaces[0].state
        };
        use ReporterState::{Error, Healthy};
        let mut looker = Looker::new(Root::at(tree().path()));
        assert_eq!(judged(&mut looker, 1_000, 10, Error), InterfaceState::Unknown, "not known yet");
        assert_eq!(judged(&mut looker, 1_010, 20, Error), InterfaceState::Ok);
        for second in (1_020..1_400).step_by(10) {
            assert_eq!(judged(&mut looker, second, 20, Error), InterfaceState::Ok, "idle since {second}");
        }
        // The next error begins anew.
        judged(&mut looker, 1_400, 20, Healthy);
        assert_eq!(judged(&mut looker, 1_410, 20, Error), InterfaceState::Unknown);
        assert_eq!(judged(&mut looker, 1_420, 20, Error), InterfaceState::Hung);
    }

    #[test]
    fn a_reporter_is_of_its_port_or_of_the_whole_device() {
        let reporter = |name: &str, port| HealthReporter {
            device: "pci/0000:01:00.0".into(),
            port,
            name: name.into(),
            state: ReporterState::Healthy,
            error_count: 0,
            recover_count: 0,
            has_dump: false,
            dump_realtime_ns: None,
            auto_recover: None,
            grace_period_ms: None,
        };
        let one = |name: &str, device: Option<&str>| Interface {
            name: name.into(),
            device: device.map(str::to_owned),
            ..Interface::default()
        };
        // The second interface is a port of the device that has another device below, as representors have.
        let mut interfaces =
            vec![one("eth0", Some("pci/0000:01:00.0")), one("eth1", None), one("eth2", Some("pci/0000:02:00.0"))];
        let port = |number| ("pci/0000:01:00.0".to_owned(), number);
        let ports = [(port(1), "eth0".to_owned()), (port(2), "eth1".to_owned())].into();
        let reporters = vec![reporter("fw", None), reporter("tx", Some(2)), reporter("rx", Some(7))];
        add_reporters(&mut interfaces, Reported { reporters, ports });
        let names: Vec<(&str, Vec<&str>)> = interfaces
            .iter()
            .map(|one| (one.name.as_str(), one.reporters.iter().map(|reporter| reporter.name.as_str()).collect()))
            .collect();
        // A port without an interface here has its reporter at the device.
        assert_eq!(
            names,
            [("eth0", vec!["fw"]), ("eth1", vec!["fw", "tx"]), ("eth2", vec![]), ("pci/0000:01:00.0", vec!["rx"])]
        );
        let mut alone = vec![one("eth0", Some("pci/0000:01:00.0"))];
        add_reporters(&mut alone, Reported { reporters: vec![reporter("fw", None)], ..Reported::default() });
        assert_eq!(alone[0].reporters.len(), 1, "also where devlink names no ports");
    }
}
