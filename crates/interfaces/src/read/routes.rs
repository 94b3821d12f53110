//! Which interfaces work depends on: those of routes that lead beyond their own networks, those that SSH sessions come through, and
//! whatever lies below them.
//!
//! The running kernel is asked for its routes of all tables, its rules, and the way to each session's far end. A recorded tree has the
//! files of /proc alone, which show the main table and, of a route with several ways, the first.

use super::sessions::{self, Session};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use surefoot_hostfs::{Error, Root};
use surefoot_model::{Carried, CarriedKind, Digits};
use surefoot_sys::netlink::routing::{self, OwnAddress, Routing, Version};
use surefoot_sys::netlink::{Socket, Transport};

/// The longest table that is read.
pub(super) const TABLE_BYTES_MAX: u64 = 16 << 20;
/// SSH sessions whose way is looked up.
const SESSIONS_MAX: usize = 1024;
/// Interfaces below one another: a VLAN on a bond on a bridge is three.
const DEPTH_MAX: usize = 8;
/// Entries of an interface's folder.
const ENTRIES_MAX: usize = 16_384;
/// `RTF_UP`, `RTF_GATEWAY` and `RTF_REJECT`.
const IS_UP: u32 = 1;
const HAS_GATEWAY: u32 = 2;
const IS_REJECT: u32 = 0x200;
/// No interface has a network of its own as wide as this.
const WIDE_BITS: u32 = 7;
/// The name of the loopback interface, which is the kernel's own everywhere.
const LOOPBACK: &str = "lo";

/// A route of the files of /proc.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    interface: String,
    network: IpAddr,
    prefix: u32,
    has_gateway: bool,
}

/// Why work depends on each interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dependents {
    /// By the name of the interface.
    known: BTreeMap<String, BTreeSet<Carried>>,
    /// What could not be read: it may concern any interface.
    unread: BTreeSet<Carried>,
}

impl Dependents {
    /// Why work depends on this interface, or may; nothing where it is known that none does.
    pub fn of(&self, interface: &str) -> Vec<Carried> {
        let known = self.known.get(interface).into_iter().flatten();
        known.chain(&self.unread).cloned().collect()
    }

    /// The same of all interfaces for which `is_wanted` holds, each with its name.
    pub fn of_all(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, Vec<Carried>)> {
        let wanted = self.known.iter().filter(|(name, _)| is_wanted(name));
        wanted.map(|(name, reasons)| (name.clone(), reasons.iter().cloned().collect())).collect()
    }

    /// What could not be read, as reasons that hold for any interface.
    pub fn unread(&self) -> Vec<Carried> {
        self.unread.iter().cloned().collect()
    }

    fn add(&mut self, interface: &str, reason: Carried) {
        // Loopback is nobody's way to anywhere.
        if interface != LOOPBACK {
            self.known.entry(interface.to_owned()).or_default().insert(reason);
        }
    }

    pub(super) fn add_unread(&mut self, what: String) {
        self.unread.insert(Carried::new(CarriedKind::NotRead, what));
    }

    fn not_read(&mut self, what: &str, error: &impl std::fmt::Display) {
        self.add_unread(format!("possibly anything ({what} not read: {error})"));
    }

    /// The routes of a version that leave through each interface and lead beyond its own network; the widest is named.
    fn add_routes(&mut self, version: Version, of: BTreeMap<String, BTreeSet<(u32, IpAddr)>>) {
        for (interface, networks) in of {
            let Some(&(prefix, network)) = networks.first() else { continue };
            let version = version.as_str();
            let reason = match (prefix, networks.len()) {
                (0, _) => Carried::new(CarriedKind::DefaultRoute, format!("the default route of {version}")),
                (_, 1) => Carried::new(CarriedKind::Route, format!("the route to {network}/{prefix}")),
                (_, count) => Carried::new(
                    CarriedKind::Route,
                    format!("{count} routes of {version}, such as to {network}/{prefix}"),
                ),
            };
            self.add(&interface, reason);
        }
    }

    /// What goes through an interface goes through those that it is made of.
    fn add_below(&mut self, root: &Root) {
        for (upper, reasons) in self.known.clone() {
            match below(root, &upper) {
                Ok(lower) => lower.iter().for_each(|lower| {
                    let through =
                        reasons.iter().map(|one| Carried::new(one.kind, format!("{}, through {upper}", one.what)));
                    through.for_each(|one| self.add(lower, one));
                }),
                Err(why) => self.not_read(&format!("what {upper} is made of was"), &why),
            }
        }
    }
}

/// Why work depends on the interfaces of this host. What cannot be read is a reason for each of them: a host with so many connections
/// that their table is beyond the limit is the last one whose link may be taken down.
pub fn carried(root: &Root) -> Dependents {
    let mut found = Dependents::default();
    let mut sessions = sessions::read(root, &mut found);
    if sessions.len() > SESSIONS_MAX {
        found.add_unread(format!("possibly more ({} SSH sessions, only {SESSIONS_MAX} checked)", sessions.len()));
        sessions = sessions.into_iter().take(SESSIONS_MAX).collect();
    }
    let routing = if root.is_host() { Some(Socket::to_routing().map(Routing::over)) } else { None };
    match routing {
        Some(Ok(mut routing)) => by_kernel(&mut routing, &sessions, &mut found),
        other => {
            if let Some(Err(error)) = other {
                found.not_read("the kernel's routing was", &error);
            }
            by_files(root, &sessions, &mut found);
        }
    }
    found.add_below(root);
    found
}

/// As the running kernel says.
fn by_kernel(routing: &mut Routing<impl Transport>, sessions: &BTreeSet<Session>, found: &mut Dependents) {
    let mut names = BTreeMap::new();
    // An interface that went away between two questions carries nothing.
    let mut name = |number: u32| names.entry(number).or_insert_with(|| routing::interface_name(number)).clone();
    let addresses = routing.addresses();
    let own = addresses.as_deref().unwrap_or_default();
    for version in Version::ALL {
        if let Err(error) = routes_of(routing, version, own, &mut name, found) {
            found.not_read(&format!("the routes of {} were", version.as_str()), &error);
        }
    }
    if let Err(error) = &addresses
        && !sessions.is_empty()
    {
        found.add_unread(format!("possibly an SSH session ({error})"));
    }
    for session in sessions {
        let reason = session.reason();
        let ways = ways(routing, session, own);
        if ways.as_ref().is_some_and(BTreeSet::is_empty) {
            continue;
        }
        let names: Vec<String> = ways.iter().flatten().filter_map(|number| name(*number)).collect();
        if names.is_empty() {
            found.add_unread("possibly an SSH session (the route to its peer is unknown)".to_owned());
        }
        names.iter().for_each(|name| found.add(name, reason.clone()));
    }
}

/// The interfaces that a session depends on: the one that the kernel sends its packets through, and those that have the address that it
/// comes to. Empty where both ends are on this host; `None` where it cannot be told.
fn ways(routing: &mut Routing<impl Transport>, session: &Session, own: &[OwnAddress]) -> Option<BTreeSet<u32>> {
    let at = |address: IpAddr| own.iter().filter(move |one| one.address == address).map(|one| one.interface);
    let comes_to: BTreeSet<u32> = at(session.local.ip()).collect();
    // Which of the links an address of one link is on, the address alone does not say.
    let way = if is_link_local(session.remote.ip()) { None } else { routing.way(session.local, session.remote).ok() };
    match way {
        Some(None) => Some(BTreeSet::new()),
        Some(Some(out)) => Some(comes_to.into_iter().chain([out]).collect()),
        None => Some(comes_to).filter(|ways| !ways.is_empty()),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The interfaces of the routes that packets of this host may take.
fn routes_of(
    routing: &mut Routing<impl Transport>,
    version: Version,
    own: &[OwnAddress],
    mut name: impl FnMut(u32) -> Option<String>,
    found: &mut Dependents,
) -> Result<(), Error> {
    let (tables, routes) = (routing.tables(version)?, routing.routes(version)?);
    let mut of: BTreeMap<String, BTreeSet<(u32, IpAddr)>> = BTreeMap::new();
    for route in routes.iter().filter(|route| tables.holds(route.table) && !route.is_connected(own)) {
        if route.hops.is_empty() {
            let (network, prefix) = (route.network, route.prefix);
            found.add_unread(format!(
                "possibly the route to {network}/{prefix}, whose interface the kernel does not name"
            ));
        }
        for name in route.hops.iter().filter_map(|hop| name(hop.interface)) {
            of.entry(name).or_default().insert((route.prefix.into(), route.network));
        }
    }
    found.add_routes(version, of);
    Ok(())
}

/// As the files of a recorded tree say.
fn by_files(root: &Root, sessions: &BTreeSet<Session>, found: &mut Dependents) {
    let routes = routes(&table(root, "net/route", found), &table(root, "net/ipv6_route", found));
    for version in Version::ALL {
        let mut of: BTreeMap<String, BTreeSet<(u32, IpAddr)>> = BTreeMap::new();
        for route in routes.iter().filter(|route| Version::of(route.network) == version && route.leads_beyond()) {
            of.entry(route.interface.clone()).or_default().insert((route.prefix, route.network));
        }
        found.add_routes(version, of);
    }
    for session in sessions {
        let through = through(&routes, session.remote.ip());
        if through.is_empty() {
            found.add_unread("possibly an SSH session (the route to its peer is unknown)".to_owned());
        }
        through.iter().for_each(|name| found.add(name, session.reason()));
    }
}

/// A table of /proc; empty, and said, where it cannot be read.
pub(super) fn table(root: &Root, name: &str, found: &mut Dependents) -> String {
    match root.read_up_to(root.proc(name), TABLE_BYTES_MAX) {
        Ok(text) => text,
        // A kernel without IPv6 has no tables of it.
        Err(error) if error.is_absent() => String::new(),
        Err(error) => {
            found.not_read(&format!("/proc/{name} was"), &error);
            String::new()
        }
    }
}

/// The interfaces that packets to an address may leave through: those of the longest network that holds it. Metrics and sources, by
/// which the kernel chooses between them, are in no file.
fn through(routes: &[Route], to: IpAddr) -> BTreeSet<&str> {
    let holding = || routes.iter().filter(|route| routing::holds(route.network, route.prefix, to));
    let longest = holding().map(|route| route.prefix).max();
    holding().filter(|route| Some(route.prefix) == longest).map(|route| route.interface.as_str()).collect()
}

impl Route {
    /// Whether it leads to more than the hosts of the interface's own network.
    fn leads_beyond(&self) -> bool {
        self.has_gateway || self.prefix <= WIDE_BITS
    }
}

fn routes(four: &str, six: &str) -> Vec<Route> {
    let four = four.lines().skip(1).filter_map(route_of_ipv4);
    four.chain(six.lines().filter_map(route_of_ipv6)).collect()
}

/// `eth0 00000000 0100A8C0 0003 0 0 100 00000000 …`: addresses as numbers of this machine.
fn route_of_ipv4(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let &[interface, network, _, flags, _, _, _, mask] = words.as_slice() else { return None };
    let hex = |word: &str| word.hex_digits::<u32>();
    let flags = hex(flags)?;
    let prefix = u32::from_be_bytes(hex(mask)?.to_ne_bytes()).leading_ones();
    let network = Ipv4Addr::from(hex(network)?.to_ne_bytes()).into();
    route(interface, network, prefix, flags)
}

/// 32 hexadecimal digits.
fn ipv6_bits(text: &str) -> Option<u128> {
    let (high, low) = text.split_at_checked(16).filter(|(_, low)| low.len() == 16)?;
    Some(u128::from(high.hex_digits::<u64>()?) << 64 | u128::from(low.hex_digits::<u64>()?))
}

/// Network, length of the prefix, source and its length, next hop, metric, two counts, flags, interface.
fn route_of_ipv6(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().take(10).collect();
    let &[network, prefix, _, _, _, _, _, _, flags, interface] = words.as_slice() else { return None };
    let network = Ipv6Addr::from_bits(ipv6_bits(network)?).into();
    // The kernel's own refusals stand at loopback.
    route(interface, network, prefix.hex_digits()?, flags.hex_digits()?).filter(|route| route.interface != LOOPBACK)
}

fn route(interface: &str, network: IpAddr, prefix: u32, flags: u32) -> Option<Route> {
    let is_route = flags & IS_UP != 0 && flags & IS_REJECT == 0 && !network.is_multicast();
    let has_gateway = flags & HAS_GATEWAY != 0;
    is_route.then(|| Route { interface: interface.to_owned(), network, prefix, has_gateway })
}

/// The interfaces that this one is made of: of a bond, a bridge, a VLAN. An error says why they are not known.
fn below(root: &Root, name: &str) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut next = vec![name.to_owned()];
    for _ in 0..DEPTH_MAX {
        let mut lower = Vec::new();
        for name in next {
            let folder = root.sys("class/net").join(name);
            let of_folder = |error: std::io::Error| format!("{}: {error}", folder.display());
            for (count, link) in fs::read_dir(&folder).map_err(of_folder)?.enumerate() {
                if count >= ENTRIES_MAX {
                    return Err(format!("{}: more than {ENTRIES_MAX} entries", folder.display()));
                }
                let link = link.map_err(of_folder)?.file_name();
                lower.extend(link.to_str().and_then(|link| link.strip_prefix("lower_")).map(str::to_owned));
            }
        }
        next = lower.into_iter().filter(|lower| found.insert(lower.clone())).collect();
        if next.is_empty() {
            return Ok(found);
        }
    }
    Err(format!("interfaces more than {DEPTH_MAX} deep"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    const HEAD: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    fn tree() -> HostTree {
        let four = format!(
            "{HEAD}bond0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             bond0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
             eth2\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
        );
        let six = "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001     eth2\n\
                   00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n\
                   00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 00000001 00000000 00000201     eth3\n";
        // A session from 10.0.0.9, one of this host's own, and one that only listens.
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue\n\
                   0: 0100000A:0016 0900000A:D431 01 0\n\
                   1: 0100000A:D431 0900000B:0016 01 0\n\
                   2: 00000000:0016 00000000:0000 0A 0\n";
        HostTree::new()
            .file("proc/net/route", four)
            .file("proc/net/ipv6_route", six)
            .file("proc/net/tcp", tcp)
            .folder("sys/class/net/bond0/lower_eth0")
            .folder("sys/class/net/bond0/lower_eth1")
            .folder("sys/class/net/eth0")
            .folder("sys/class/net/eth1")
            .folder("sys/class/net/eth2")
    }

    #[test]
    fn what_carries_the_default_route_or_a_session_is_known_down_to_the_lowest() {
        let tree = tree();
        let carried = carried(&Root::at(tree.path()));
        let route = |what| [Carried::new(CarriedKind::DefaultRoute, what)];
        assert_eq!(carried.of("bond0"), route("the default route of IPv4"));
        assert_eq!(carried.of("eth0"), route("the default route of IPv4, through bond0"));
        assert_eq!(carried.of("eth2"), [Carried::new(CarriedKind::SshSession, "an SSH session of 10.0.0.9")]);
        assert_eq!(carried.known.keys().map(String::as_str).collect::<Vec<_>>(), ["bond0", "eth0", "eth1", "eth2"]);
        assert_eq!(carried.of("eth9"), []);
    }

    #[test]
    fn a_table_that_is_not_read_to_its_end_is_a_reason_for_every_interface() {
        // As of a host with a hundred thousand connections, or of a router with the routes of the Internet.
        let row = "   0: 0100000A:0016 0900000A:D431 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n";
        let long = row.repeat(TABLE_BYTES_MAX as usize / row.len() + 1);
        for (tree, table) in [
            (tree().file("proc/net/tcp", &long), "net/tcp"),
            (tree().file("proc/net/route", &long), "net/route"),
            (tree().folder("proc/net/tcp6"), "net/tcp6"),
        ] {
            let carried = carried(&Root::at(tree.path()));
            let reasons = carried.of("eth9");
            assert!(reasons.iter().all(|one| one.kind == CarriedKind::NotRead && one.is_public()), "{reasons:?}");
            assert!(reasons.iter().any(|one| one.what.contains(table)), "{table}: {reasons:?}");
        }
        let many_deep = (0..9).fold(tree().folder("sys/class/net/bond0"), |tree, at| {
            let upper = if at == 0 { "bond0".to_owned() } else { format!("deep{at}") };
            tree.folder(format!("sys/class/net/{upper}/lower_deep{}", at + 1))
                .folder(format!("sys/class/net/deep{}", at + 1))
        });
        for tree in [tree().without("sys/class/net/bond0"), many_deep] {
            let reasons = carried(&Root::at(tree.path())).of("eth9");
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].kind == CarriedKind::NotRead && reasons[0].what.contains("bond0"), "{reasons:?}");
        }
        let without_ipv6 = HostTree::new().file("proc/net/route", HEAD).file("proc/net/tcp", "");
        assert_eq!(carried(&Root::at(without_ipv6.path())).of("eth9"), []);
        let many: String = (0..1500).map(|at| format!("   0: 0100000A:0016 {at:04X}000A:D431 01 0\n")).collect();
        let reasons = carried(&Root::at(tree().file("proc/net/tcp", format!("\n{many}")).path())).of("eth9");
        assert!(reasons[0].what.contains("1500 SSH sessions"), "{reasons:?}");
    }

    #[test]
    fn a_route_beyond_the_own_network_is_carried_and_the_widest_is_named() {
        // The two halves of the Internet through a tunnel, and a network behind a gateway.
        let four = format!(
            "{HEAD}tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n\
             tun0\t00000080\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n\
             eth2\t0000000A\t0101A8C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n"
        );
        let tree = tree().file("proc/net/route", four).file("proc/net/tcp", "").folder("sys/class/net/tun0");
        let carried = carried(&Root::at(tree.path()));
        let route = |what: &str| [Carried::new(CarriedKind::Route, what)];
        assert_eq!(carried.of("tun0"), route("2 routes of IPv4, such as to 0.0.0.0/1"));
        assert_eq!(carried.of("eth2"), route("the route to 10.0.0.0/8"));
        assert_eq!(carried.of("bond0"), []);
    }

    #[test]
    fn the_longest_network_is_taken_and_ipv4_in_ipv6_is_ipv4() {
        let tree = tree();
        let table = |name: &str| Root::at(tree.path()).read(tree.path().join("proc/net").join(name)).unwrap();
        let other = "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000002 00000000 00000001 eth3\n";
        let routes = routes(&table("route"), &(table("ipv6_route") + other));
        let through = |to: &str| through(&routes, to.parse().unwrap()).into_iter().collect::<Vec<_>>();
        assert_eq!(through("10.9.9.9"), ["eth2"]);
        assert_eq!(through("192.168.1.9"), ["bond0"]);
        assert_eq!(through("fe80::1"), ["eth2", "eth3"], "which of the two links it is on is in no file");
        assert_eq!(through("2001:db8::1"), [""; 0]);
        assert_eq!(through("203.0.113.1"), ["bond0"]);
    }
}
