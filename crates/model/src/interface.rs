//! Network interfaces: their state, what it rests on, and what was done for one that failed.

use crate::{Certainty, Happened, HappenedBody, Room, Subject, SubjectKind};
use serde::{Deserialize, Deserializer, Serialize};

/// How an interface does its work. The order is from well to bad, but for [`InterfaceState::Unknown`], which comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InterfaceState {
    /// Nothing here tells: it is down, without carrier, or was not looked at long enough.
    #[default]
    Unknown,
    /// No problem found.
    Ok,
    /// Its packets arrive, later than they used to.
    Slow,
    /// Some of its packets are lost or damaged, or its link comes and goes.
    Losing,
    /// It moves no packets, or its driver reports a fault that it has not got over.
    Hung,
}

impl InterfaceState {
    /// Every state, from well to bad.
    pub const ALL: [InterfaceState; 5] = [
        InterfaceState::Unknown,
        InterfaceState::Ok,
        InterfaceState::Slow,
        InterfaceState::Losing,
        InterfaceState::Hung,
    ];

    /// The name in JSON and metrics, which is also the word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            InterfaceState::Unknown => "unknown",
            InterfaceState::Ok => "ok",
            InterfaceState::Slow => "slow",
            InterfaceState::Losing => "losing",
            InterfaceState::Hung => "hung",
        }
    }
}

/// What a devlink health reporter says of the part of the device that it watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReporterState {
    /// It works.
    Healthy,
    /// It reported a fault, and no recovery has succeeded since.
    Error,
    /// The kernel said something that this release does not know.
    Unknown,
}

/// A devlink health reporter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct HealthReporter {
    /// The device as devlink names it: bus and device, such as `pci/0000:3b:00.0`.
    pub device: String,
    /// The port of the device; `None` where it watches the whole device.
    pub port: Option<u32>,
    /// Its name, such as `tx` or `fw_fatal`.
    pub name: String,
    /// What it says.
    pub state: ReporterState,
    /// Errors since the driver loaded.
    pub error_count: u64,
    /// Recoveries that succeeded since the driver loaded.
    pub recover_count: u64,
    /// Whether the driver keeps a dump of the error.
    pub has_dump: bool,
    /// When that dump was made, `CLOCK_REALTIME`; `None` where the kernel does not say.
    pub dump_realtime_ns: Option<u64>,
    /// Whether the kernel recovers by itself; `None` where this reporter cannot recover.
    pub auto_recover: Option<bool>,
    /// The least time between two recoveries of the kernel's own, ms; `None` where this reporter cannot recover.
    pub grace_period_ms: Option<u64>,
}

/// Counters of an interface since its driver loaded; `None` for one that is not told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct InterfaceCounters {
    /// Packets received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_packets: Option<u64>,
    /// Packets sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_packets: Option<u64>,
    /// Bytes received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_bytes: Option<u64>,
    /// Bytes sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_bytes: Option<u64>,
    /// Packets that arrived damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_errors: Option<u64>,
    /// Of those, with a wrong checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_crc_errors: Option<u64>,
    /// Packets that the device dropped, because nobody fetched them in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_missed_errors: Option<u64>,
    /// Packets that the kernel dropped after they arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_dropped: Option<u64>,
    /// Packets that could not be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_errors: Option<u64>,
    /// Packets that the kernel dropped before they were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_dropped: Option<u64>,
}

/// How a peer is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// Packets of Surefoot's own type, which `surefoot nic health --answer` returns.
    Packet,
    /// Requests of the address resolution protocol, which the neighbour's kernel answers.
    Arp,
    /// Echo requests of ICMP, which the neighbour's kernel answers.
    Icmp,
}

/// Percentiles of round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct RoundTrips {
    /// Half took no longer than this.
    pub p50_ns: u64,
    /// 99 of 100 took no longer than this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Of so many.
    pub count: u64,
}

/// What probing a peer came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct InterfaceProbe {
    /// The peer, as it was named.
    pub peer: String,
    /// How it was probed.
    pub kind: ProbeKind,
    /// Probes sent.
    pub sent_count: u64,
    /// Probes that the interface did not take.
    pub refused_count: u64,
    /// Probes answered in time.
    pub answered_count: u64,
    /// How long a probe was waited for.
    pub wait_ns: u64,
    /// The round trips of the answered; `None` without any.
    pub round_trips: Option<RoundTrips>,
    /// What they usually are; `None` where that is not known yet.
    pub baseline: Option<RoundTrips>,
    /// Whether this peer has ever answered.
    pub has_answered: bool,
    /// Answers in a version of Surefoot's probes that this release does not know.
    #[serde(default)]
    pub other_version_count: u64,
}

/// What a part of a self-test says: 0 where it passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct SelfTestPart {
    /// The driver's name of it.
    pub name: String,
    /// The driver's value; what other values than 0 mean is the driver's own.
    pub value: u64,
}

/// A self-test of the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct SelfTest {
    /// Whether the parts that interrupt traffic were run, too.
    pub is_offline: bool,
    /// Whether the driver says that all passed.
    pub has_passed: bool,
    /// Each part.
    pub parts: Vec<SelfTestPart>,
    /// Why there was none; `None` where it ran.
    pub why_not: Option<String>,
}

/// Why work depends on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CarriedKind {
    /// A default route leaves through it.
    DefaultRoute,
    /// A route to networks beyond its own leaves through it.
    Route,
    /// An SSH session comes in through it.
    SshSession,
    /// What depends on it is not known: a table of the kernel could not be read, or is beyond a limit.
    NotRead,
    /// Recorded by a release that did not tell, or by a newer one: may be private.
    #[serde(other)]
    Unknown,
}

/// One reason why work depends on an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Carried {
    /// The kind of reason.
    pub kind: CarriedKind,
    /// In words: `the default route of IPv4, through bond0`.
    pub what: String,
}

impl<'de> Deserialize<'de> for Carried {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Older releases recorded the words only.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Recorded {
            Words(String),
            Entry { kind: CarriedKind, what: String },
        }
        Ok(match Recorded::deserialize(deserializer)? {
            Recorded::Words(what) => Carried { kind: CarriedKind::Unknown, what },
            Recorded::Entry { kind, what } => Carried { kind, what },
        })
    }
}

impl Carried {
    /// A reason of this kind.
    pub fn new(kind: CarriedKind, what: impl Into<String>) -> Self {
        Carried { kind, what: what.into() }
    }

    /// Several in words, separated by commas.
    pub fn list(all: &[Carried]) -> String {
        let words: Vec<&str> = all.iter().map(|one| one.what.as_str()).collect();
        words.join(", ")
    }

    /// Whether every user of the host may read it: not who is logged in, and nothing of an unknown kind.
    pub fn is_public(&self) -> bool {
        matches!(self.kind, CarriedKind::DefaultRoute | CarriedKind::Route | CarriedKind::NotRead)
    }
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// The driver; `None` where nothing names it.
    pub driver: Option<String>,
    /// Bus and device below it, such as `pci/0000:00:03.0`; `None` for one that is made of software.
    pub device: Option<String>,
    /// How it does.
    pub state: InterfaceState,
    /// How sure that is; `None` where the state is not known.
    pub certainty: Option<Certainty>,
    /// What the state rests on, a line each.
    pub evidence: Vec<String>,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether it has a link; `None` where the kernel does not say, as of one that is switched off.
    pub has_carrier: Option<bool>,
    /// Speed of the link, Mbit/s; `None` where the driver does not say.
    pub speed_mbit_per_s: Option<u64>,
    /// Why work depends on it; empty if no reason is known.
    pub carries: Vec<Carried>,
    /// Times that the kernel found a send queue stuck, all queues, since the driver loaded; `None` where it has no such counter.
    pub tx_timeout_count: Option<u64>,
    /// Times that the link came or went; `None` where the kernel does not say.
    #[serde(default)]
    pub carrier_change_count: Option<u64>,
    /// Its counters.
    pub counters: InterfaceCounters,
    /// Its health reporters.
    pub reporters: Vec<HealthReporter>,
    /// What probing came to; `None` where nobody asked for it.
    pub probe: Option<InterfaceProbe>,
    /// Its self-test; `None` where nobody asked for it.
    pub self_test: Option<SelfTest>,
}

/// What could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct InterfaceProblem {
    /// The file, or the part of the kernel that was asked.
    pub path: String,
    /// Why not, and what helps.
    pub why: String,
}

/// A look at all interfaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct InterfaceLook {
    /// When it began, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When it began, `CLOCK_REALTIME`.
    pub looked_realtime_ns: u64,
    /// How long it took.
    pub look_ns: u64,
    /// The interfaces, by name; the loopback interface is not one of them.
    pub interfaces: Vec<Interface>,
    /// Interfaces beyond those.
    pub interfaces_left_out: u64,
    /// What could not be read.
    pub problems: Vec<InterfaceProblem>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// Why there is nothing to see; `None` where there is.
    pub unsupported: Option<String>,
}

/// An interface came into another state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct InterfaceChange {
    /// When that was seen, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When that was seen, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// Which.
    pub interface: String,
    /// The state before.
    pub from: InterfaceState,
    /// The state now.
    pub to: InterfaceState,
    /// What it rests on.
    pub evidence: Vec<String>,
}

/// What the source of interfaces saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "seen", rename_all = "snake_case")]
pub enum InterfaceEvent {
    /// A look has ended; replaces the one before.
    Look(InterfaceLook),
    /// An interface came into another state.
    Changed(InterfaceChange),
}

impl InterfaceEvent {
    /// See [`crate::Event::comes_to_ns`].
    pub(crate) fn comes_to_ns(&self) -> Option<u64> {
        match self {
            InterfaceEvent::Look(look) => Some(look.at_ns),
            InterfaceEvent::Changed(change) => Some(change.at_ns),
        }
    }

    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            InterfaceEvent::Look(look) => {
                let problems = look.problems.iter().map(|problem| problem.path.len() + problem.why.len());
                size_of_val(look.interfaces.as_slice())
                    + size_of_val(look.problems.as_slice())
                    + look.interfaces.iter().map(Interface::held_bytes).chain(problems).sum::<usize>()
                    + look.unsupported.as_ref().map_or(0, String::len)
            }
            InterfaceEvent::Changed(change) => change.interface.len() + texts(&change.evidence),
        }
    }

    /// Changes of state and steps of recovery are kept one by one; see [`crate::Event::happened`].
    pub(crate) fn happened(&self) -> Vec<Happened<'_>> {
        let of = |kind, interface: &String, at_realtime_ns, body| {
            let subject = Subject::new(SubjectKind::Interface, interface.clone());
            vec![Happened { room: Room::Nic, kind, subject, at_realtime_ns, body }]
        };
        match self {
            InterfaceEvent::Look(_) => Vec::new(),
            InterfaceEvent::Changed(change) => {
                let body = HappenedBody::InterfaceChange(change);
                of("interface_state", &change.interface, change.at_realtime_ns, body)
            }
        }
    }
}

fn texts(lines: &[String]) -> usize {
    size_of_val(lines) + lines.iter().map(String::len).sum::<usize>()
}

impl Interface {
    fn held_bytes(&self) -> usize {
        let some = [&self.driver, &self.device];
        let reporters = self.reporters.iter().map(|one| one.device.len() + one.name.len());
        let parts = self.self_test.iter().flat_map(|test| &test.parts);
        self.name.len()
            + some.iter().filter_map(|text| text.as_ref().map(String::len)).sum::<usize>()
            + texts(&self.evidence)
            + size_of_val(self.carries.as_slice())
            + self.carries.iter().map(|one| one.what.len()).sum::<usize>()
            + size_of_val(self.reporters.as_slice())
            + reporters.sum::<usize>()
            + self.probe.as_ref().map_or(0, |probe| probe.peer.len())
            + parts.map(|part| size_of_val(part) + part.name.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_words_of_states_are_those_of_their_json() {
        for state in InterfaceState::ALL {
            assert_eq!(format!("{state:?}").to_lowercase(), state.as_str());
        }
    }

    #[test]
    fn a_reason_that_an_older_or_newer_release_recorded_is_kept_and_private() {
        let read = |json: &str| serde_json::from_str::<Carried>(json).unwrap();
        for json in [r#""the default route of IPv4""#, r#"{"kind": "moon", "what": "the default route of IPv4"}"#] {
            let one = read(json);
            assert_eq!((one.kind, one.what.as_str()), (CarriedKind::Unknown, "the default route of IPv4"));
            assert!(!one.is_public());
        }
        let route = Carried::new(CarriedKind::DefaultRoute, "the default route of IPv4");
        assert_eq!(read(&serde_json::to_string(&route).unwrap()), route);
        assert!(route.is_public() && !Carried::new(CarriedKind::SshSession, "").is_public());
    }

    #[test]
    fn changes_and_steps_happened_to_their_interface_and_looks_did_not() {
        let change = InterfaceChange {
            at_ns: 1,
            at_realtime_ns: 2,
            interface: "eth1".into(),
            from: InterfaceState::Ok,
            to: InterfaceState::Hung,
            evidence: vec!["a".into()],
        };
        let event = InterfaceEvent::Changed(change);
        let happened = event.happened();
        assert_eq!((happened[0].kind, happened[0].at_realtime_ns), ("interface_state", 2));
        assert_eq!(happened[0].subject, Subject::new(SubjectKind::Interface, "eth1"));
        assert!(InterfaceEvent::Look(InterfaceLook::default()).happened().is_empty());
        assert!(event.held_bytes() > 5 && event.comes_to_ns() == Some(1));
    }
}
