//! The kernel's routes of all tables, the rules that choose a table, the addresses of interfaces, and the way to an address.

use super::message::{self, Attributes, attributes, unsigned};
use super::{Transport, exchange, failed};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use surefoot_hostfs::Error;

/// Routes of one version that are read; a router with the routes of the Internet has more, and then it is not known what they are.
pub const ROUTES_MAX: usize = 131_072;
/// Rules, and addresses, that are read.
const ENTRIES_MAX: usize = 16_384;
/// A list that changes while it is made is asked for again, this often at most.
const TRIES_MAX: usize = 8;

const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const NEW_RULE: u16 = 32;
const GET_RULE: u16 = 34;

/// The lengths of `ifaddrmsg`, `rtmsg` and `fib_rule_hdr`, and of `rtnexthop`.
const ADDRESS_BYTES: usize = 8;
const ROUTE_BYTES: usize = 12;
const RULE_BYTES: usize = 12;
const HOP_BYTES: usize = 8;

/// Attributes of routes (`RTA_*`).
mod of_route {
    pub const TO: u16 = 1;
    pub const FROM: u16 = 2;
    pub const OUT: u16 = 4;
    pub const GATEWAY: u16 = 5;
    pub const OWN_ADDRESS: u16 = 7;
    pub const MULTIPATH: u16 = 9;
    pub const TABLE: u16 = 15;
    pub const VIA: u16 = 18;
    pub const ENCAPSULATION: u16 = 22;
    pub const PROTOCOL: u16 = 27;
    pub const SOURCE_PORT: u16 = 28;
    pub const DESTINATION_PORT: u16 = 29;
}
/// Attributes of rules (`FRA_*`).
const RULE_TABLE: u16 = 15;
const RULE_L3MDEV: u16 = 19;
/// Attributes of addresses (`IFA_*`).
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;

/// `RTN_UNICAST` and `RTN_LOCAL`.
const UNICAST: u8 = 1;
const IS_LOCAL: u8 = 2;
/// `RTPROT_KERNEL` and `RTPROT_RA`: who makes the routes to the networks of an interface's own addresses.
const BY_KERNEL: u8 = 2;
const BY_ADVERTISEMENT: u8 = 9;
/// `RTM_F_CLONED`: what the kernel noted of one destination, and no route.
const CLONED: u32 = 0x200;
/// `FR_ACT_TO_TBL`.
const TO_TABLE: u8 = 1;

/// A version of the Internet protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Version {
    /// Both.
    pub const ALL: [Version; 2] = [Version::V4, Version::V6];

    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Version::V4 } else { Version::V6 }
    }

    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V4 => "IPv4",
            Version::V6 => "IPv6",
        }
    }

    fn family(self) -> u8 {
        (if self == Version::V4 { libc::AF_INET } else { libc::AF_INET6 }) as u8
    }

    fn address(self, bytes: &[u8]) -> Option<IpAddr> {
        match self {
            Version::V4 => <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into()),
            Version::V6 => <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into()),
        }
    }

    fn unspecified(self) -> IpAddr {
        match self {
            Version::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Version::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// A way out of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The kernel's number of the interface.
    pub interface: u32,
    /// Whether it goes to a gateway or into a tunnel, and not to hosts on the interface's own network.
    pub is_onward: bool,
}

/// A unicast route of any table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The table.
    pub table: u32,
    /// Where to.
    pub network: IpAddr,
    /// Bits of the network.
    pub prefix: u8,
    /// All ways out; empty where the kernel does not tell them, as of nexthop objects without `nexthop_compat_mode`.
    pub hops: Vec<Hop>,
    /// Whether the kernel or a router's advertisement made it.
    is_of_kernel: bool,
    /// The address that its packets have, where it says one.
    own: Option<IpAddr>,
}

impl Route {
    /// Whether it only leads to the hosts of the interface's own network: the kernel made it, or somebody who set what the kernel would
    /// have made of one of these addresses. One that is wider leads to strangers, by whatever address.
    pub fn is_connected(&self, addresses: &[OwnAddress]) -> bool {
        let is_of = |own: IpAddr, one: &OwnAddress| {
            one.address == own && self.prefix >= one.prefix && holds(self.network, self.prefix.into(), own)
        };
        let is_own = self.own.is_some_and(|own| addresses.iter().any(|one| is_of(own, one)));
        self.prefix > 0 && (self.is_of_kernel || is_own) && self.hops.iter().all(|hop| !hop.is_onward)
    }
}

/// The tables that the rules of a version lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tables {
    /// Any: there are no rules, or one of them leads to the tables of VRFs.
    Any,
    /// These.
    These(BTreeSet<u32>),
}

impl Tables {
    /// Whether packets may be routed by this table.
    pub fn holds(&self, table: u32) -> bool {
        match self {
            Tables::Any => true,
            Tables::These(these) => these.contains(&table),
        }
    }
}

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnAddress {
    /// The kernel's number of the interface.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits of its network.
    pub prefix: u8,
}

/// The kernel's routing, asked.
#[derive(Debug)]
pub struct Routing<T> {
    transport: T,
    sequence: u32,
}

impl<T: Transport> Routing<T> {
    /// Over this transport.
    pub fn over(transport: T) -> Self {
        Routing { transport, sequence: 0 }
    }

    /// The unicast routes of all tables.
    ///
    /// # Errors
    /// [`Error::System`], also where there are more than [`ROUTES_MAX`].
    pub fn routes(&mut self, version: Version) -> Result<Vec<Route>, Error> {
        let header = [version.family(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let action = format!("read the routes of {}", version.as_str());
        let things = self.list((GET_ROUTE, NEW_ROUTE), &header, ROUTES_MAX, &action)?;
        let of_version = things.iter().filter(|body| body.first() == Some(&version.family()));
        let routes: Option<Vec<Option<Route>>> = of_version.map(|body| route(version, body)).collect();
        let routes = routes.ok_or_else(|| failed(&action, io::ErrorKind::InvalidData.into()))?;
        Ok(routes.into_iter().flatten().collect())
    }

    /// The tables that rules lead to.
    ///
    /// # Errors
    /// [`Error::System`]. A kernel without rules is none.
    pub fn tables(&mut self, version: Version) -> Result<Tables, Error> {
        let header = [version.family(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let action = format!("read the routing rules of {}", version.as_str());
        let things = match self.list((GET_RULE, NEW_RULE), &header, ENTRIES_MAX, &action) {
            Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => Vec::new(),
            other => other?,
        };
        let mut tables = BTreeSet::new();
        for body in things.iter().filter(|body| body.first() == Some(&version.family())) {
            let Some(rule) = rule(body) else { return Err(failed(&action, io::ErrorKind::InvalidData.into())) };
            match rule {
                Rule::ToTable(table) => _ = tables.insert(table),
                Rule::ToAny => return Ok(Tables::Any),
                Rule::Other => {}
            }
        }
        Ok(if tables.is_empty() { Tables::Any } else { Tables::These(tables) })
    }

    /// The addresses of all interfaces.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn addresses(&mut self) -> Result<Vec<OwnAddress>, Error> {
        let action = "read the addresses of interfaces";
        let things = self.list((GET_ADDRESS, NEW_ADDRESS), &[0; ADDRESS_BYTES], ENTRIES_MAX, action)?;
        Ok(things.iter().filter_map(|body| own_address(body)).collect())
    }

    /// The interface that packets of a TCP connection leave through, as `ip route get` tells it; `None` where its other end is on
    /// this host.
    ///
    /// # Errors
    /// [`Error::System`] where the kernel knows no way.
    pub fn way(&mut self, from: SocketAddr, to: SocketAddr) -> Result<Option<u32>, Error> {
        let version = Version::of(to.ip());
        let bits = if version == Version::V4 { 32 } else { 128 };
        let header = [version.family(), bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let of = |attributes: Attributes, kind, address: IpAddr| match address {
            IpAddr::V4(address) => attributes.bytes(kind, &address.octets()),
            IpAddr::V6(address) => attributes.bytes(kind, &address.octets()),
        };
        let ends = of(of(Attributes::default(), of_route::TO, to.ip()), of_route::FROM, from.ip());
        // Rules may look at ports, and so does the choice between several ways.
        let asked = ends
            .bytes(of_route::PROTOCOL, &[libc::IPPROTO_TCP as u8])
            .bytes(of_route::SOURCE_PORT, &from.port().to_be_bytes())
            .bytes(of_route::DESTINATION_PORT, &to.port().to_be_bytes());
        let action = "find the way to an address";
        let answer = self.ask(GET_ROUTE, false, &header, &asked, 1, action)?;
        let found = answer.things.iter().find(|(kind, body)| *kind == NEW_ROUTE && body.len() >= ROUTE_BYTES);
        let (_, body) = found.ok_or_else(|| failed(action, io::ErrorKind::InvalidData.into()))?;
        if body[7] == IS_LOCAL {
            return Ok(None);
        }
        let out = attributes(&body[ROUTE_BYTES..]).find(|(kind, _)| *kind == of_route::OUT);
        let out = out.and_then(|(_, value)| u32::try_from(unsigned(value)?).ok());
        out.map(Some).ok_or_else(|| failed(action, io::ErrorKind::InvalidData.into()))
    }

    /// The things of a list, each behind the header of its message. The list is asked for again while it changes.
    fn list(&mut self, kinds: (u16, u16), header: &[u8], most: usize, action: &str) -> Result<Vec<Vec<u8>>, Error> {
        for _ in 0..TRIES_MAX {
            let answer = self.ask(kinds.0, true, header, &Attributes::default(), most, action)?;
            if !answer.is_interrupted {
                let wanted = answer.things.into_iter().filter(|(kind, _)| *kind == kinds.1);
                return Ok(wanted.map(|(_, body)| body).collect());
            }
        }
        Err(failed(action, io::Error::new(io::ErrorKind::ResourceBusy, "they changed each time they were read")))
    }

    fn ask(
        &mut self,
        kind: u16,
        is_for_all: bool,
        header: &[u8],
        asked: &Attributes,
        most: usize,
        action: &str,
    ) -> Result<super::Answer, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = message::request(kind, is_for_all, self.sequence, header, asked);
        exchange(&mut self.transport, &request, self.sequence, most, action)
    }
}

/// A route; `Some(None)` for one that is not unicast, `None` for a malformed one.
fn route(version: Version, body: &[u8]) -> Option<Option<Route>> {
    let head = body.get(..ROUTE_BYTES)?;
    let (prefix, protocol, kind) = (head[1], head[5], head[7]);
    let flags = u32::from_ne_bytes(*head.last_chunk()?);
    if kind != UNICAST || flags & CLONED != 0 {
        return Some(None);
    }
    let (mut table, mut network, mut own) = (u32::from(head[4]), version.unspecified(), None);
    let (mut out, mut is_onward, mut hops) = (None, false, Vec::new());
    for (kind, value) in attributes(&body[ROUTE_BYTES..]) {
        match kind {
            of_route::TABLE => table = unsigned(value)?.try_into().ok()?,
            of_route::TO => network = version.address(value)?,
            of_route::OWN_ADDRESS => own = version.address(value),
            of_route::OUT => out = Some(unsigned(value)?.try_into().ok()?),
            of_route::GATEWAY | of_route::VIA | of_route::ENCAPSULATION => is_onward = true,
            of_route::MULTIPATH => hops = several(value)?,
            _ => {}
        }
    }
    // Older kernels tell the network of multicast as unicast.
    if network.is_multicast() {
        return Some(None);
    }
    hops.extend(out.map(|interface| Hop { interface, is_onward }));
    let is_of_kernel = matches!(protocol, BY_KERNEL | BY_ADVERTISEMENT);
    Some(Some(Route { table, network, prefix, hops, is_of_kernel, own }))
}

/// Whether an address is of a network.
pub fn holds(network: IpAddr, prefix: u32, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}

/// The ways of a route that has several.
fn several(mut bytes: &[u8]) -> Option<Vec<Hop>> {
    let mut hops = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let hop = bytes.get(..length).filter(|hop| hop.len() >= HOP_BYTES)?;
        let interface = u32::from_ne_bytes(*hop[4..].first_chunk()?);
        let onward = [of_route::GATEWAY, of_route::VIA, of_route::ENCAPSULATION];
        let is_onward = attributes(&hop[HOP_BYTES..]).any(|(kind, _)| onward.contains(&kind));
        hops.push(Hop { interface, is_onward });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(hops)
}

enum Rule {
    ToTable(u32),
    /// To the table of whatever VRF a packet is of.
    ToAny,
    /// A refusal, or a jump to another rule, which is in the list, too.
    Other,
}

fn rule(body: &[u8]) -> Option<Rule> {
    let head = body.get(..RULE_BYTES)?;
    let mut table = u32::from(head[4]);
    for (kind, value) in attributes(&body[RULE_BYTES..]) {
        match kind {
            RULE_TABLE => table = unsigned(value)?.try_into().ok()?,
            RULE_L3MDEV if unsigned(value)? != 0 => return Some(Rule::ToAny),
            _ => {}
        }
    }
    Some(if head[7] == TO_TABLE { Rule::ToTable(table) } else { Rule::Other })
}

fn own_address(body: &[u8]) -> Option<OwnAddress> {
    let head = body.get(..ADDRESS_BYTES)?;
    let version = Version::ALL.into_iter().find(|version| version.family() == head[0])?;
    let interface = u32::from_ne_bytes(*head.last_chunk()?);
    let value = |wanted| attributes(&body[ADDRESS_BYTES..]).find(|(kind, _)| *kind == wanted);
    // At one end of a line between two, the other address is that of the far end.
    let (_, bytes) = value(LOCAL).or_else(|| value(ADDRESS))?;
    Some(OwnAddress { interface, address: version.address(bytes)?, prefix: head[1] })
}

/// The name of the interface with this number, in the network namespace of this thread; `None` where it has gone.
pub fn interface_name(number: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer is as long as the call asks for, and it writes a text that ends in a zero.
    let found = unsafe { libc::if_indextoname(number, name.as_mut_ptr().cast()) };
    (!found.is_null()).then(|| message::string(&name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(head: &[u8], attributes: &Attributes) -> Vec<u8> {
        let request = message::request(0, true, 0, head, attributes);
        request[16..].to_vec()
    }

    /// `default proto static nexthop via 10.9.0.2 dev 3 nexthop dev 4`, of table 300.
    fn multipath() -> Vec<u8> {
        let head = [2, 0, 0, 0, 252, 4, 0, UNICAST, 0, 0, 0, 0];
        let gateway = bytes_of(&[], &Attributes::default().bytes(of_route::GATEWAY, &[10, 9, 0, 2]));
        let mut hops = vec![16, 0, 0, 0, 3, 0, 0, 0];
        hops.extend(gateway);
        hops.extend([8, 0, 0, 0, 4, 0, 0, 0]);
        bytes_of(&head, &Attributes::default().number(of_route::TABLE, 300).bytes(of_route::MULTIPATH, &hops))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn every_way_of_a_route_is_read() {
        let found = route(Version::V4, &multipath()).unwrap().unwrap();
        let hop = |interface, is_onward| Hop { interface, is_onward };
        assert_eq!(found.hops, [hop(3, true), hop(4, false)]);
        assert_eq!((found.table, found.prefix, found.network), (300, 0, Ipv4Addr::UNSPECIFIED.into()));
        assert!(!found.is_connected(&[]));
    }

    #[test]
    fn a_route_to_an_interfaces_own_network_is_told_from_one_beyond() {
        let of = |prefix, protocol, more: fn(Attributes) -> Attributes| {
            let head = [2, prefix, 0, 0, 254, protocol, 253, UNICAST, 0, 0, 0, 0];
            let to = Attributes::default().bytes(of_route::TO, &[10, 9, 0, 0]).number(of_route::OUT, 3);
            let address = OwnAddress { interface: 3, address: Ipv4Addr::new(10, 9, 0, 1).into(), prefix: 24 };
            route(Version::V4, &bytes_of(&head, &more(to))).unwrap().unwrap().is_connected(&[address])
        };
        let own = |attributes: Attributes| attributes.bytes(of_route::OWN_ADDRESS, &[10, 9, 0, 1]);
        let gateway = |attributes: Attributes| attributes.bytes(of_route::GATEWAY, &[10, 9, 0, 2]);
        // By the kernel, and by a DHCP client that sets the network of its address itself.
        assert!(of(24, BY_KERNEL, |attributes| attributes) && of(24, 16, own));
        // Wider than the network of the address: half of the Internet, by this address.
        assert!(!of(8, 3, own) && !of(1, 3, own) && of(25, 3, own));
        // Into a tunnel, through a gateway, and a default route of the kernel's.
        assert!(!of(16, 4, |attributes| attributes) && !of(24, 16, gateway) && !of(0, BY_KERNEL, own));
    }

    #[test]
    fn rules_lead_to_tables_or_to_any() {
        let read =
            |action, attributes: Attributes| rule(&bytes_of(&[2, 0, 0, 0, 100, 0, 0, action, 0, 0, 0, 0], &attributes));
        assert!(matches!(read(TO_TABLE, Attributes::default()), Some(Rule::ToTable(100))));
        assert!(matches!(
            read(TO_TABLE, Attributes::default().number(RULE_TABLE, 51_820)),
            Some(Rule::ToTable(51_820))
        ));
        assert!(matches!(read(TO_TABLE, Attributes::default().bytes(RULE_L3MDEV, &[1])), Some(Rule::ToAny)));
        assert!(matches!(read(7, Attributes::default()), Some(Rule::Other)));
        assert!(Tables::Any.holds(9) && !Tables::These([254].into()).holds(9));
    }

    #[test]
    fn the_running_kernel_tells_its_routing() {
        let mut routing = Routing::over(crate::netlink::Socket::to_routing().unwrap());
        for version in Version::ALL {
            routing.routes(version).unwrap();
            routing.tables(version).unwrap();
        }
        let addresses = routing.addresses().unwrap();
        let loopback = addresses.iter().find(|own| own.address.is_loopback()).unwrap();
        assert_eq!(interface_name(loopback.interface).as_deref(), Some("lo"));
        let end = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        assert_eq!(routing.way(end(22), end(50_000)).unwrap(), None, "loopback leads to this host");
        assert_eq!(interface_name(u32::MAX), None);
    }

    struct Changing(u32, usize);

    impl Transport for Changing {
        fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
            self.0 = u32::from_ne_bytes(*datagram[8..].first_chunk().unwrap());
            Ok(())
        }

        fn receive(&mut self) -> io::Result<Vec<u8>> {
            let mut thing = message::request(
                NEW_RULE,
                true,
                self.0,
                &[2, 0, 0, 0, 254, 0, 0, TO_TABLE, 0, 0, 0, 0],
                &Attributes::default(),
            );
            let mut end = message::request(3, true, self.0, &[0; 4], &Attributes::default());
            self.1 = self.1.saturating_sub(1);
            // NLM_F_MULTI, and NLM_F_DUMP_INTR at the end of a list that changed.
            thing[6..8].copy_from_slice(&2u16.to_ne_bytes());
            end[6..8].copy_from_slice(&if self.1 > 0 { 0x12u16 } else { 2 }.to_ne_bytes());
            thing.extend(end);
            Ok(thing)
        }
    }

    #[test]
    fn a_list_that_changes_while_it_is_made_is_asked_for_again_and_not_for_ever() {
        let tables = |changes| Routing::over(Changing(0, changes)).tables(Version::V4);
        assert_eq!(tables(TRIES_MAX).unwrap(), Tables::These([254].into()));
        let error = tables(TRIES_MAX + 1).unwrap_err().to_string();
        assert!(error.contains("cannot read the routing rules of IPv4"), "{error}");
    }

    proptest! {
        #[test]
        fn nothing_that_comes_panics(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            for version in Version::ALL {
                let _ = route(version, &bytes);
                let _ = route(version, &[&multipath()[..20], &bytes].concat());
            }
            let _ = (rule(&bytes).is_some(), own_address(&bytes), several(&bytes));
        }
    }
}
