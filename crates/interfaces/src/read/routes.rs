//! Which interfaces work hangs on: those of default routes, those that SSH sessions come through, and whatever lies below them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use surefoot_hostfs::Root;
use surefoot_model::{Carried, CarriedKind, Digits};

/// The longest table that is read.
const TABLE_BYTES_MAX: u64 = 16 << 20;
/// Lines of a table that are read.
const LINES_MAX: usize = 100_000;
/// Remote ends of SSH sessions that are looked up.
const SESSIONS_MAX: usize = 256;
/// Interfaces below one another: a VLAN on a bond on a bridge is three.
const DEPTH_MAX: usize = 8;
/// `TCP_ESTABLISHED`.
const ESTABLISHED: &str = "01";
const SSH_PORT: u16 = 22;
/// `RTF_UP` and `RTF_REJECT`.
const IS_UP: u32 = 1;
const IS_REJECT: u32 = 0x200;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    interface: String,
    network: IpAddr,
    prefix: u32,
}

/// Why work hangs on an interface, by its name; those that are not in it carry neither.
pub fn carried(root: &Root) -> BTreeMap<String, Vec<Carried>> {
    let routes = routes(root);
    let mut carried: BTreeMap<String, BTreeSet<Carried>> = BTreeMap::new();
    for route in routes.iter().filter(|route| route.prefix == 0) {
        let version = if route.network.is_ipv4() { "IPv4" } else { "IPv6" };
        let reason = Carried::new(CarriedKind::DefaultRoute, format!("the default route of {version}"));
        carried.entry(route.interface.clone()).or_default().insert(reason);
    }
    for peer in ssh_peers(root) {
        if let Some(interface) = through(&routes, peer) {
            let reason = Carried::new(CarriedKind::SshSession, format!("an SSH session of {peer}"));
            carried.entry(interface.to_owned()).or_default().insert(reason);
        }
    }
    for (upper, reasons) in carried.clone() {
        for lower in below(root, &upper) {
            let through = reasons.iter().map(|one| Carried::new(one.kind, format!("{}, through {upper}", one.what)));
            carried.entry(lower).or_default().extend(through);
        }
    }
    carried.into_iter().map(|(name, reasons)| (name, reasons.into_iter().collect())).collect()
}

/// The interface that packets to an address leave through: that of the longest network that holds it.
fn through(routes: &[Route], to: IpAddr) -> Option<&str> {
    let holding = routes.iter().filter(|route| holds(route, to));
    holding.max_by_key(|route| route.prefix).map(|route| route.interface.as_str())
}

fn holds(route: &Route, address: IpAddr) -> bool {
    match (route.network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - route.prefix.min(32)).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - route.prefix.min(128)).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}

fn table(root: &Root, name: &str) -> String {
    root.read_up_to(root.proc(name), TABLE_BYTES_MAX).unwrap_or_default()
}

fn routes(root: &Root) -> Vec<Route> {
    let (four, six) = (table(root, "net/route"), table(root, "net/ipv6_route"));
    let four = four.lines().skip(1).take(LINES_MAX).filter_map(route_of_ipv4);
    four.chain(six.lines().take(LINES_MAX).filter_map(route_of_ipv6)).collect()
}

/// `eth0 00000000 0100A8C0 0003 0 0 100 00000000 …`: addresses as numbers of this machine.
fn route_of_ipv4(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let &[interface, network, _, flags, _, _, _, mask] = words.as_slice() else { return None };
    let hex = |word: &str| word.hex_digits::<u32>();
    let flags = hex(flags)?;
    let prefix = u32::from_be_bytes(hex(mask)?.to_ne_bytes()).leading_ones();
    let network = Ipv4Addr::from(hex(network)?.to_ne_bytes()).into();
    (flags & IS_UP != 0 && flags & IS_REJECT == 0).then(|| Route { interface: interface.to_owned(), network, prefix })
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
    let flags = flags.hex_digits::<u32>()?;
    let network = Ipv6Addr::from_bits(ipv6_bits(network)?).into();
    let prefix = prefix.hex_digits::<u32>()?;
    // The kernel's own refusals stand at loopback.
    let is_route = flags & IS_UP != 0 && flags & IS_REJECT == 0 && interface != "lo";
    is_route.then(|| Route { interface: interface.to_owned(), network, prefix })
}

/// Who is connected to this host's port 22.
fn ssh_peers(root: &Root) -> BTreeSet<IpAddr> {
    let tables = [table(root, "net/tcp"), table(root, "net/tcp6")];
    let sessions = tables.iter().flat_map(|table| table.lines().skip(1).take(LINES_MAX)).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let &[_, local, remote, state] = words.as_slice() else { return None };
        let (_, port) = local.rsplit_once(':')?;
        let is_session = state == ESTABLISHED && port.hex_digits::<u16>()? == SSH_PORT;
        is_session.then(|| address(remote.rsplit_once(':')?.0)).flatten()
    });
    sessions.filter(|peer| !peer.is_loopback()).take(SESSIONS_MAX).collect()
}

/// An address of the tables of TCP: one or four numbers of this machine.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| text.get(at..at + 8)?.hex_digits::<u32>().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (place, chunk) in bytes.chunks_mut(4).enumerate() {
                chunk.copy_from_slice(&word(place * 8)?);
            }
            // IPv4 over a socket of IPv6 goes by the routes of IPv4.
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// The interfaces that this one is made of: of a bond, a bridge, a VLAN.
fn below(root: &Root, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![name.to_owned()];
    for _ in 0..DEPTH_MAX {
        let folders = next.iter().map(|name| root.sys("class/net").join(name));
        let links = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten().take(4096));
        let lower = links.filter_map(|link| link.file_name().to_str()?.strip_prefix("lower_").map(str::to_owned));
        next = lower.filter(|lower| found.insert(lower.clone())).collect();
    }
    found
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
            .folder("sys/class/net/eth2")
    }

    #[test]
    fn what_carries_the_default_route_or_a_session_is_known_down_to_the_lowest() {
        let tree = tree();
        let carried = carried(&Root::at(tree.path()));
        let route = |what| [Carried::new(CarriedKind::DefaultRoute, what)];
        assert_eq!(carried["bond0"], route("the default route of IPv4"));
        assert_eq!(carried["eth0"], route("the default route of IPv4, through bond0"));
        assert_eq!(carried["eth2"], [Carried::new(CarriedKind::SshSession, "an SSH session of 10.0.0.9")]);
        assert_eq!(carried.keys().map(String::as_str).collect::<Vec<_>>(), ["bond0", "eth0", "eth1", "eth2"]);
    }

    #[test]
    fn the_longest_network_is_taken_and_ipv4_in_ipv6_is_ipv4() {
        let routes = routes(&Root::at(tree().path()));
        assert_eq!(through(&routes, "10.9.9.9".parse().unwrap()), Some("eth2"));
        assert_eq!(through(&routes, "192.168.1.9".parse().unwrap()), Some("bond0"));
        assert_eq!(through(&routes, "fe80::1".parse().unwrap()), Some("eth2"));
        assert_eq!(through(&routes, "2001:db8::1".parse().unwrap()), None);
        assert_eq!(address("0000000000000000FFFF00000900000A"), Some("10.0.0.9".parse().unwrap()));
        assert_eq!(address("é000000"), None);
    }
}
