//! The hosts of the fleet, room by room: how bad each is, and of which rooms nothing is known.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Headline, HostFacts, LostRate, Room, Severity, SubjectKind};
use surefoot_store::cases::{FleetHost, FleetNow, Worst};

/// An agent that was noted so long ago no longer tells of its host: three of the store's notes are missing.
const SILENT_NS: u64 = 900_000_000_000;
/// Kernels, firmware and machines of one answer, the most frequent of each kind.
const KINDS_MAX: usize = 20;

/// What is shown of the hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostQuery {
    /// The hosts of this service alone.
    pub service: Option<String>,
    /// The hosts with a finding in this room alone.
    pub room: Option<Room>,
    /// The hosts whose name, service or sentences contain this, in any case.
    pub search: Option<String>,
    /// Which comes first.
    pub order: HostOrder,
    /// At most so many.
    pub limit: usize,
}

/// Which host comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostOrder {
    /// The one in the worst state.
    #[default]
    Worst,
    /// The one whose average core loses most time; those of which nothing is known come last.
    Lost,
    /// By name.
    Name,
}

impl std::fmt::Display for HostOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HostOrder::Worst => "worst",
            HostOrder::Lost => "lost",
            HostOrder::Name => "name",
        })
    }
}

impl std::str::FromStr for HostOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<HostOrder, String> {
        let known = [HostOrder::Worst, HostOrder::Lost, HostOrder::Name];
        known.into_iter().find(|order| order.to_string() == text).ok_or_else(|| "worst, lost or name".to_owned())
    }
}

/// The hosts, those that need somebody first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostList {
    /// The time of the store, `CLOCK_REALTIME`.
    pub now_ns: u64,
    /// All hosts in one sentence, also those that are left out here.
    pub headline: Headline,
    /// The hosts.
    pub hosts: Vec<HostLine>,
    /// How many hosts match.
    pub matching: u64,
    /// How many hosts there are.
    pub total: u64,
    /// Hosts and alerts that had no room in the store's answer, or could not be read.
    pub left_out: u64,
    /// What the hosts run on.
    pub populations: Vec<Population>,
    /// Where a host's own page is, with `{host}` in the place of its name; absent where the server was not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_page: Option<String>,
}

/// One host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename = "host")]
#[schemars(rename = "host")]
pub struct HostLine {
    /// Its name.
    pub host: String,
    /// The service that it works for; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service: String,
    /// When its agent was noted last, to within five minutes; absent where no agent tells of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ns: Option<u64>,
    /// Whether what is told of it is old, or nothing is: no room of it is known to be well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_silent: bool,
    /// The worst that holds; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// What holds, by room.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<Room, Cell>,
    /// Alerts that are of no room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Cell>,
    /// Rooms that are watched and in which nothing holds. Of a room that is neither here nor in `found` nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub well: Vec<Room>,
    /// What it runs on.
    #[serde(flatten)]
    pub facts: HostFacts,
    /// What its cores lost in the minute before `seen_ns`; absent where that is not known, and where the agent is silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostRate>,
}

/// The worst of what holds in one room of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cell {
    /// How bad it is.
    pub severity: Severity,
    /// Since when, `CLOCK_REALTIME`.
    pub since_ns: u64,
    /// The sentence.
    pub sentence: String,
    /// How many hold.
    pub count: u64,
}

/// Hosts that run on the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Population {
    /// What of them is the same.
    pub kind: PopulationKind,
    /// The kernel's release, the firmware or the machine; empty where it is not known.
    pub name: String,
    /// How many hosts.
    pub hosts: u64,
    /// Those of them with a warning or worse, by room.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<Room, u64>,
    /// Of parts: how many there are in these hosts, of those that are known by their serial numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<PartsOfModel>,
}

/// The parts of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartsOfModel {
    /// How many.
    pub count: u64,
    /// Those of them with a warning or worse.
    pub faulty: u64,
}

/// What hosts are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PopulationKind {
    /// The kernel's release.
    Kernel,
    /// Vendor and version of the firmware.
    Firmware,
    /// Vendor and name of the machine.
    Product,
    /// The part number of memory modules.
    Dimm,
    /// The model of drives.
    Drive,
}

impl HostList {
    /// The hosts that are asked for.
    pub fn of(fleet: &FleetNow, query: &HostQuery) -> HostList {
        let mut all: Vec<HostLine> = fleet.hosts.iter().map(|host| HostLine::of(host, fleet.now_ns)).collect();
        let headline = headline(&all);
        let (total, populations) = (all.len() as u64 + fleet.hosts_left_out, populations(fleet, &all));
        all.retain(|host| query.matches(host));
        match query.order {
            HostOrder::Worst => all.sort_by_cached_key(HostLine::order),
            HostOrder::Lost => all.sort_by_cached_key(|host| {
                let lost = host.lost.map(|lost| (lost.mean_ns_per_s(), lost.worst_ns_per_s));
                (std::cmp::Reverse(lost), host.order())
            }),
            HostOrder::Name => all.sort_by(|one, two| one.host.cmp(&two.host)),
        }
        let matching = all.len() as u64;
        all.truncate(query.limit);
        let left_out = fleet.hosts_left_out + fleet.alerts_left_out;
        let now_ns = fleet.now_ns;
        HostList { now_ns, headline, hosts: all, matching, total, left_out, populations, host_page: None }
    }
}

/// Reads where a host's own page is: an address with `{host}` in it, once.
///
/// # Errors
/// What is wrong with it.
pub fn host_page(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split("{host}").collect();
    let [before, after] = parts[..] else { return Err("'{host}' must stand in it once".into()) };
    let is_web = before.starts_with("https://") || before.starts_with("http://");
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_graphic() && !br#"<>"'{}\"#.contains(&byte));
    match is_web && is_plain(before) && is_plain(after) {
        true => Ok(text.to_owned()),
        false => Err("it is no http:// or https:// address".into()),
    }
}

impl HostQuery {
    fn matches(&self, host: &HostLine) -> bool {
        let is_in = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let says = |part: &String| {
            let sentences = host.found.values().chain(&host.alerts).map(|cell| &cell.sentence);
            [&host.host, &host.service].into_iter().chain(sentences).any(|text| is_in(text, part))
        };
        self.service.as_ref().is_none_or(|service| *service == host.service)
            && self.room.is_none_or(|room| host.found.contains_key(&room))
            && self.search.as_ref().is_none_or(says)
    }
}

impl HostLine {
    fn of(host: &FleetHost, now_ns: u64) -> HostLine {
        let is_silent = host.seen_ns == 0 || now_ns.saturating_sub(host.seen_ns) > SILENT_NS;
        let cell = |worst: &Worst| Cell {
            severity: worst.severity,
            since_ns: worst.since_ns,
            sentence: worst.sentence.clone(),
            count: worst.count,
        };
        let found: BTreeMap<Room, Cell> =
            host.found.iter().filter_map(|(room, worst)| Some(((*room)?, cell(worst)))).collect();
        let is_well = |(room, left_out): &(&Room, &u64)| !is_silent && **left_out == 0 && !found.contains_key(room);
        HostLine {
            host: host.host.clone(),
            service: host.service.clone(),
            seen_ns: Some(host.seen_ns).filter(|seen_ns| *seen_ns > 0),
            is_silent,
            severity: host.found.values().map(|worst| worst.severity).max(),
            well: host.view.rooms.iter().filter(is_well).map(|(room, _)| *room).collect(),
            alerts: host.found.get(&None).map(cell),
            facts: host.view.facts.clone(),
            lost: host.view.lost.filter(|_| !is_silent),
            found,
        }
    }

    /// The worst first, of these the silent ones, the one with the oldest trouble, and by name.
    fn order(&self) -> (std::cmp::Reverse<Option<Severity>>, bool, u64, String) {
        let cells = self.found.values().chain(&self.alerts);
        let worst = cells.filter(|cell| Some(cell.severity) == self.severity);
        let since_ns = worst.map(|cell| cell.since_ns).min().unwrap_or(u64::MAX);
        (std::cmp::Reverse(self.severity), !self.is_silent, since_ns, self.host.clone())
    }
}

fn headline(hosts: &[HostLine]) -> Headline {
    let count = |severity: Severity| hosts.iter().filter(|host| host.severity == Some(severity)).count();
    let of = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let silent = hosts.iter().filter(|host| host.is_silent).count();
    let parts: Vec<String> = [
        of(count(Severity::Critical), "critical"),
        of(count(Severity::Warning), "with warnings"),
        of(silent, "silent"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let severity = hosts.iter().filter_map(|host| host.severity).max().unwrap_or_default();
    let severity = if silent > 0 { severity.max(Severity::Warning) } else { severity };
    let hosts = match hosts.len() {
        1 => "1 host".to_owned(),
        count => format!("{count} hosts"),
    };
    match parts.is_empty() {
        true => Headline::new(severity, format!("{hosts}: no warnings.")),
        false => Headline::new(severity, format!("{hosts}: {}.", parts.join(", "))),
    }
}

fn populations(fleet: &FleetNow, hosts: &[HostLine]) -> Vec<Population> {
    let mut by: BTreeMap<(PopulationKind, &str), Population> = BTreeMap::new();
    let new =
        |kind, name: &str| Population { kind, name: name.to_owned(), hosts: 0, found: BTreeMap::new(), parts: None };
    for host in &fleet.hosts {
        let mut seen = BTreeSet::new();
        for counted in &host.view.parts {
            let kind = match counted.kind {
                SubjectKind::Dimm => PopulationKind::Dimm,
                SubjectKind::Drive => PopulationKind::Drive,
                _ => continue,
            };
            let one = by.entry((kind, &counted.model)).or_insert_with(|| new(kind, &counted.model));
            one.hosts += u64::from(seen.insert((kind, &counted.model)));
            let parts = one.parts.get_or_insert_default();
            parts.count = parts.count.saturating_add(counted.count);
            parts.faulty = parts.faulty.saturating_add(counted.faulty);
        }
    }
    for host in hosts.iter().filter(|host| host.seen_ns.is_some()) {
        let HostFacts { kernel, firmware, product } = &host.facts;
        let kinds = [
            (PopulationKind::Kernel, kernel),
            (PopulationKind::Firmware, firmware),
            (PopulationKind::Product, product),
        ];
        for (kind, name) in kinds {
            let one = by.entry((kind, name)).or_insert_with(|| new(kind, name));
            one.hosts += 1;
            let bad = host.found.iter().filter(|(_, cell)| cell.severity >= Severity::Warning);
            bad.for_each(|(room, _)| *one.found.entry(*room).or_default() += 1);
        }
    }
    let mut all: Vec<Population> = by.into_values().collect();
    all.sort_by(|a, b| a.kind.cmp(&b.kind).then(b.hosts.cmp(&a.hosts)).then_with(|| a.name.cmp(&b.name)));
    let mut counts: BTreeMap<PopulationKind, usize> = BTreeMap::new();
    all.retain(|one| {
        let count = counts.entry(one.kind).or_default();
        *count += 1;
        *count <= KINDS_MAX
    });
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_model::PartCount;
    use surefoot_store::cases::HostView;

    const NOW_NS: u64 = 2_000_000_000_000_000_000;

    fn worst(severity: Severity, since_ns: u64, sentence: &str) -> Worst {
        Worst { severity, since_ns, sentence: sentence.into(), count: 1 }
    }

    fn host(name: &str, seen_ago_s: u64, found: Vec<(Option<Room>, Worst)>) -> FleetHost {
        let facts = HostFacts { kernel: "6.1".into(), ..HostFacts::default() };
        FleetHost {
            host: name.into(),
            service: "web".into(),
            seen_ns: NOW_NS - seen_ago_s * 1_000_000_000,
            view: HostView {
                rooms: [(Room::Memory, 0), (Room::Nic, 2), (Room::Stall, 0)].into(),
                facts,
                ..HostView::default()
            },
            found: found.into_iter().collect(),
        }
    }

    fn fleet(hosts: Vec<FleetHost>) -> FleetNow {
        FleetNow { now_ns: NOW_NS, hosts, hosts_left_out: 0, alerts_left_out: 0 }
    }

    fn all() -> HostQuery {
        HostQuery { limit: 100, ..HostQuery::default() }
    }

    #[test]
    fn a_room_is_well_only_where_somebody_looks_and_leaves_nothing_out() {
        let no_agent = FleetHost {
            seen_ns: 0,
            view: HostView::default(),
            ..host("n3", 0, vec![(None, worst(Severity::Critical, 5, "Down."))])
        };
        let hosts = vec![
            host("n1", 10, vec![(Some(Room::Memory), worst(Severity::Warning, 7, "DIMM A1."))]),
            host("n2", 901, Vec::new()),
            no_agent,
        ];
        let list = HostList::of(&fleet(hosts), &all());
        let names: Vec<&str> = list.hosts.iter().map(|host| &*host.host).collect();
        assert_eq!(names, ["n3", "n1", "n2"], "the worst first");
        let [n3, n1, n2] = &list.hosts[..] else { panic!("{list:?}") };
        assert_eq!((n1.well.as_slice(), n1.is_silent), (&[Room::Stall][..], false), "two findings of nic have no room");
        assert_eq!((n2.well.as_slice(), n2.is_silent, n2.severity), (&[][..], true, None), "what it said is old");
        assert_eq!((n3.seen_ns, n3.is_silent, n3.well.as_slice()), (None, true, &[][..]));
        assert_eq!(n3.alerts.as_ref().map(|cell| &*cell.sentence), Some("Down."));
        assert_eq!(list.headline.sentence, "3 hosts: 1 critical, 1 with warnings, 2 silent.");
        assert_eq!(list.headline.severity, Severity::Critical);
    }

    #[test]
    fn a_fleet_of_silent_hosts_is_not_well() {
        let list = HostList::of(&fleet(vec![host("n1", 1_000, Vec::new())]), &all());
        assert_eq!((list.headline.severity, &*list.headline.sentence), (Severity::Warning, "1 host: 1 silent."));
        let list = HostList::of(&fleet(vec![host("n1", 1, Vec::new())]), &all());
        assert_eq!((list.headline.severity, &*list.headline.sentence), (Severity::Ok, "1 host: no warnings."));
    }

    #[test]
    fn hosts_are_found_by_service_room_and_words_and_the_rest_is_counted() {
        let of =
            |name: &str, room: Room| host(name, 1, vec![(Some(room), worst(Severity::Notice, 1, "Fan 3 is SLOW."))]);
        let mut other = of("b1", Room::Memory);
        other.service = "db".into();
        let hosts = fleet(vec![of("a1", Room::Memory), of("a2", Room::Nic), other]);
        let asked = |query: HostQuery| {
            let list = HostList::of(&hosts, &query);
            (list.hosts.iter().map(|host| host.host.clone()).collect::<Vec<_>>().join(" "), list.matching, list.total)
        };
        assert_eq!(asked(HostQuery { service: Some("db".into()), ..all() }), ("b1".into(), 1, 3));
        assert_eq!(asked(HostQuery { room: Some(Room::Memory), ..all() }), ("a1 b1".into(), 2, 3));
        assert_eq!(asked(HostQuery { search: Some("slow".into()), limit: 1, ..all() }), ("a1".into(), 3, 3));
        assert_eq!(asked(HostQuery { search: Some("A2".into()), ..all() }), ("a2".into(), 1, 3));
    }

    #[test]
    fn hosts_that_lose_most_come_first_and_those_of_which_it_is_unknown_last() {
        let of = |name: &str, seen_ago_s, total_ns_per_s: Option<u64>, cores| {
            let mut host = host(name, seen_ago_s, Vec::new());
            host.view.lost =
                total_ns_per_s.map(|total_ns_per_s| LostRate { total_ns_per_s, cores, ..LostRate::default() });
            host
        };
        // Of an average core: 100 ms on 128 cores are less than 10 ms on 4.
        let hosts = fleet(vec![
            of("many", 1, Some(100_000_000), 128),
            of("few", 1, Some(10_000_000), 4),
            of("none", 1, Some(0), 4),
            of("silent", 901, Some(900_000_000), 1),
            of("old", 1, None, 0),
        ]);
        let names = |order| {
            let list = HostList::of(&hosts, &HostQuery { order, ..all() });
            list.hosts.iter().map(|host| host.host.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(HostOrder::Lost), "few many none silent old", "what a silent host lost is not known any more");
        assert_eq!(names(HostOrder::Name), "few many none old silent");
        let list = HostList::of(&hosts, &all());
        assert!(list.hosts.iter().all(|host| host.lost.is_some() != ["silent", "old"].contains(&&*host.host)));
    }

    #[test]
    fn the_address_of_a_hosts_page_is_one_of_the_web_with_a_place_for_the_name() {
        for good in ["https://{host}:9470/", "http://proxy/watch/{host}?view=stall"] {
            assert_eq!(host_page(good).as_deref(), Ok(good));
        }
        for bad in [
            "https://n1/",
            "javascript:{host}",
            "{host}",
            "https://{host}/{host}",
            "https://{host}/\"x",
            "https://{host}/ x",
        ] {
            host_page(bad).unwrap_err();
        }
    }

    #[test]
    fn populations_count_hosts_and_those_in_trouble() {
        let bad = host("n1", 1, vec![(Some(Room::Memory), worst(Severity::Warning, 1, "x"))]);
        let mut new = host("n2", 1, vec![(Some(Room::Memory), worst(Severity::Notice, 1, "x"))]);
        new.view.facts.kernel = "6.18".into();
        let list = HostList::of(&fleet(vec![bad, host("n3", 1, Vec::new()), new]), &all());
        let kernels: Vec<_> = list.populations.iter().filter(|one| one.kind == PopulationKind::Kernel).collect();
        let counted = |one: &&Population| (one.name.clone(), one.hosts, one.found.get(&Room::Memory).copied());
        assert_eq!(
            kernels.iter().map(counted).collect::<Vec<_>>(),
            [("6.1".into(), 2, Some(1)), ("6.18".into(), 1, None)]
        );
    }

    #[test]
    fn parts_are_counted_by_model_over_all_hosts_with_those_in_trouble() {
        let of = |name: &str, model: &str, count, faulty| {
            let mut host = host(name, 1, Vec::new());
            let part = |kind, model: &str, count, faulty| PartCount { kind, model: model.into(), count, faulty };
            host.view.parts = vec![part(SubjectKind::Dimm, model, count, faulty), part(SubjectKind::Drive, "", 1, 0)];
            host
        };
        let hosts = vec![of("n1", "M1", 16, 1), of("n2", "M1", 16, 0), of("n3", "M2", 8, 2)];
        let list = HostList::of(&fleet(hosts), &all());
        let counted = list.populations.iter().filter_map(|one| {
            let parts = one.parts?;
            Some((one.kind, &*one.name, one.hosts, parts.count, parts.faulty))
        });
        assert_eq!(
            counted.collect::<Vec<_>>(),
            [
                (PopulationKind::Dimm, "M1", 2, 32, 1),
                (PopulationKind::Dimm, "M2", 1, 8, 2),
                (PopulationKind::Drive, "", 3, 3, 0)
            ]
        );
    }
}
