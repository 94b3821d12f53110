//! What the files of a host say of its interfaces. Reading changes nothing.

pub mod routes;
mod sessions;

use crate::Error;
use std::fs;
use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_model::{Carried, Digits, Interface, InterfaceCounters};

/// Interfaces that are looked at; hosts of many containers have more, and those beyond are counted.
pub const INTERFACES_MAX: usize = 1024;
/// Names and links in a folder of an interface.
const ENTRIES_MAX: usize = 4096;
/// The longest of the small files that are read.
const FILE_BYTES_MAX: u64 = 4096;
/// `ARPHRD_LOOPBACK`.
const LOOPBACK: &str = "772";
/// What drivers say of a speed that they do not know, beside -1, which is no number here: nothing, -1 of 16 bits, and -1 of 32 bits
/// (`SPEED_UNKNOWN`).
const SPEEDS_UNKNOWN: [u64; 3] = [0, 65_535, 4_294_967_295];
/// `IFF_UP`.
pub(crate) const IS_UP: u32 = 1;

/// The names of the interfaces in order, without loopback; and how many there are beyond: too many, with a name that is no
/// text, or of a type that cannot be read. Where one is named, that one alone.
///
/// # Errors
/// Where there is no list of them.
pub fn names(root: &Root, only: Option<&str>) -> Result<(Vec<String>, u64), Error> {
    let folder = root.sys("class/net");
    let unlisted = |source| Error::List { path: folder.clone(), source };
    let entries = fs::read_dir(&folder).map_err(unlisted)?;
    let (mut names, mut unread) = (Vec::new(), 0);
    for entry in entries.take(16 * ENTRIES_MAX) {
        let name = entry.map_err(unlisted)?.file_name().into_string();
        unread += u64::from(name.is_err());
        let Some(name) = name.ok().filter(|name| only.is_none_or(|only| only == name)) else { continue };
        match root.read_up_to(folder.join(&name).join("type"), FILE_BYTES_MAX) {
            Ok(kind) if kind.trim() == LOOPBACK => {}
            Ok(_) => names.push(name),
            // Files such as bonding_masters stand there, too, and an interface may go meanwhile.
            Err(error) if error.is_absent() => {}
            Err(error) if only.is_some() || error.exhausted().is_some() => return Err(Error::Host(error)),
            Err(_) => unread += 1,
        }
    }
    names.sort();
    let left_out = names.len().saturating_sub(INTERFACES_MAX) as u64 + if only.is_none() { unread } else { 0 };
    names.truncate(INTERFACES_MAX);
    Ok((names, left_out))
}

/// Why work depends on other interfaces of the same device: what is done to the device is done to them.
pub fn carried_beside(root: &Root, name: &str) -> Vec<Carried> {
    let folder = root.sys("class/net");
    let device = |name: &str| fs::canonicalize(folder.join(name).join("device")).ok();
    if !has_device(root, name) {
        return Vec::new();
    }
    let carried = routes::carried(root);
    let Some(own) = device(name) else { return carried.unread() };
    let beside = carried.of_all(|other| other != name && device(other).is_some_and(|of| of == own));
    let beside = beside.into_iter().flat_map(|(other, reasons)| {
        reasons.into_iter().map(move |one| Carried::new(one.kind, format!("{}, on {other}", one.what)))
    });
    beside.chain(carried.unread()).collect()
}

/// Whether there is a device below the interface.
pub fn has_device(root: &Root, name: &str) -> bool {
    root.sys("class/net").join(name).join("device").exists()
}

/// What the files say of one interface; `None` where it has gone.
pub fn interface(root: &Root, name: &str) -> Option<Interface> {
    let folder = root.sys("class/net").join(name);
    let flags = flags(root, name)?;
    let (device, driver) = device(&folder);
    Some(Interface {
        name: name.to_owned(),
        driver,
        device,
        is_up: flags & IS_UP != 0,
        has_carrier: number(root, &folder.join("carrier")).map(|carrier| carrier == 1),
        speed_mbit_per_s: number(root, &folder.join("speed")).filter(|speed| !SPEEDS_UNKNOWN.contains(speed)),
        tx_timeout_count: tx_timeouts(root, &folder),
        carrier_change_count: number(root, &folder.join("carrier_changes")),
        counters: counters(root, &folder.join("statistics")),
        ..Interface::default()
    })
}

/// The flags of an interface, as `ip link` shows them.
pub(crate) fn flags(root: &Root, name: &str) -> Option<u32> {
    let text = text(root, &root.sys("class/net").join(name).join("flags"))?;
    text.strip_prefix("0x")?.hex_digits::<u32>()
}

/// Bus and device, and the driver, as their links say.
fn device(folder: &Path) -> (Option<String>, Option<String>) {
    let last = |path: &Path| fs::read_link(path).ok()?.file_name()?.to_str().map(str::to_owned);
    let device = folder.join("device");
    let (bus, driver) = (last(&device.join("subsystem")), last(&device.join("driver")));
    // A link of virtio's points to a device of its own below the PCI function.
    let name = last(&device);
    (bus.zip(name).map(|(bus, name)| format!("{bus}/{name}")), driver)
}

/// Times that the kernel found a queue stuck, all queues together; `None` where no queue counts that.
fn tx_timeouts(root: &Root, folder: &Path) -> Option<u64> {
    let queues = fs::read_dir(folder.join("queues")).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let of_queue = |name: std::ffi::OsString| {
        name.to_str().filter(|name| name.starts_with("tx-"))?;
        number(root, &folder.join("queues").join(name).join("tx_timeout"))
    };
    queues.filter_map(|queue| of_queue(queue.file_name())).reduce(u64::saturating_add)
}

fn counters(root: &Root, folder: &Path) -> InterfaceCounters {
    let of = |name: &str| number(root, &folder.join(name));
    InterfaceCounters {
        rx_packets: of("rx_packets"),
        tx_packets: of("tx_packets"),
        rx_bytes: of("rx_bytes"),
        tx_bytes: of("tx_bytes"),
        rx_errors: of("rx_errors"),
        rx_crc_errors: of("rx_crc_errors"),
        rx_missed_errors: of("rx_missed_errors"),
        rx_dropped: of("rx_dropped"),
        tx_errors: of("tx_errors"),
        tx_dropped: of("tx_dropped"),
    }
}

/// The trimmed text of a small file; `None` where there is none, or the driver refuses it.
pub(crate) fn text(root: &Root, path: &Path) -> Option<String> {
    root.read_again_up_to(path, FILE_BYTES_MAX).ok().map(|text| text.trim().to_owned())
}

/// The kernel's number of an interface, read anew each time: files that stay open go with an interface that was renamed, and one of
/// the same name may have come.
pub(crate) fn index(root: &Root, name: &str) -> Option<u32> {
    let path = root.sys("class/net").join(name).join("ifindex");
    root.read_up_to(path, FILE_BYTES_MAX).ok()?.trim().digits()
}

fn number(root: &Root, path: &Path) -> Option<u64> {
    text(root, path)?.digits()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    fn eth0() -> HostTree {
        HostTree::new()
            .file("sys/class/net/lo/type", "772\n")
            .file("sys/class/net/bonding_masters", "\n")
            .file("sys/class/net/eth0/type", "1\n")
            .file("sys/class/net/eth0/flags", "0x1003\n")
            .file("sys/class/net/eth0/carrier", "1\n")
            .file("sys/class/net/eth0/speed", "-1\n")
            .file("sys/class/net/eth0/carrier_changes", "4\n")
            .file("sys/class/net/eth0/queues/tx-0/tx_timeout", "2\n")
            .file("sys/class/net/eth0/queues/tx-1/tx_timeout", "1\n")
            .file("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .file("sys/class/net/eth0/statistics/rx_packets", "100\n")
            .file("sys/class/net/eth0/statistics/rx_crc_errors", "7\n")
            .folder("sys/bus/pci/drivers/e1000e")
            .link("sys/class/net/eth0/device", "../../../devices/0000:00:03.0")
            .link("sys/devices/0000:00:03.0/driver", "../../bus/pci/drivers/e1000e")
            .link("sys/devices/0000:00:03.0/subsystem", "../../bus/pci")
    }

    #[test]
    fn the_files_of_an_interface_are_read() {
        let tree = eth0();
        let root = Root::at(tree.path());
        assert_eq!(names(&root, None).unwrap(), (vec!["eth0".to_owned()], 0));
        let one = interface(&root, "eth0").unwrap();
        assert_eq!((one.driver.as_deref(), one.device.as_deref()), (Some("e1000e"), Some("pci/0000:00:03.0")));
        assert!(one.is_up && one.has_carrier == Some(true) && one.speed_mbit_per_s.is_none());
        assert_eq!((one.tx_timeout_count, one.carrier_change_count), (Some(3), Some(4)));
        assert_eq!(
            (one.counters.rx_packets, one.counters.rx_crc_errors, one.counters.tx_packets),
            (Some(100), Some(7), None)
        );
        assert!(has_device(&root, "eth0") && interface(&root, "eth1").is_none());
    }

    #[test]
    fn a_speed_that_the_driver_does_not_know_is_unknown() {
        for (speed, expected) in [
            ("-1", None),
            ("65535", None),
            ("4294967295", None),
            ("0", None),
            ("+1000", None),
            ("unknown", None),
            ("10", Some(10)),
            ("100000", Some(100_000)),
        ] {
            let tree = eth0().file("sys/class/net/eth0/speed", format!("{speed}\n"));
            assert_eq!(interface(&Root::at(tree.path()), "eth0").unwrap().speed_mbit_per_s, expected, "{speed}");
        }
    }

    #[test]
    fn nonsense_in_files_is_no_number() {
        let tree = eth0()
            .file("sys/class/net/eth0/queues/tx-0/tx_timeout", "many\n")
            .file("sys/class/net/eth0/carrier", "\u{1b}");
        let one = interface(&Root::at(tree.path()), "eth0").unwrap();
        assert_eq!((one.tx_timeout_count, one.has_carrier), (Some(1), None));
        let tree = tree.without("sys/class/net/eth0/queues");
        assert_eq!(interface(&Root::at(tree.path()), "eth0").unwrap().tx_timeout_count, None);
    }

    #[test]
    fn of_more_interfaces_than_are_looked_at_each_can_be_named() {
        let mut tree = HostTree::new();
        for number in 0..INTERFACES_MAX + 10 {
            tree = tree.file(format!("sys/class/net/veth{number:05}/type"), "1\n");
        }
        let root = Root::at(tree.path());
        let last = format!("veth{:05}", INTERFACES_MAX + 9);
        let (names_of_all, left_out) = names(&root, None).unwrap();
        assert_eq!((names_of_all.len(), left_out, names_of_all.contains(&last)), (INTERFACES_MAX, 10, false));
        assert_eq!(names(&root, Some(&last)).unwrap(), (vec![last], 0));
        assert_eq!(names(&root, Some("eth0")).unwrap(), (Vec::new(), 0));
    }

    #[test]
    fn an_interface_whose_name_is_no_text_is_counted() {
        use std::os::unix::ffi::OsStrExt;
        let tree = eth0();
        std::fs::create_dir(tree.path().join("sys/class/net").join(std::ffi::OsStr::from_bytes(b"\xff\xfe"))).unwrap();
        assert_eq!(names(&Root::at(tree.path()), None).unwrap(), (vec!["eth0".to_owned()], 1));
    }

    #[test]
    fn what_hangs_on_another_port_of_the_device_is_known() {
        let routes = "Iface\nbond0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        let tree = eth0()
            .file("proc/net/route", routes)
            .folder("sys/class/net/bond0/lower_eth1")
            .folder("sys/devices/0000:00:04.0")
            .folder("sys/class/net/eth1")
            .folder("sys/class/net/eth2")
            .link("sys/class/net/eth1/device", "../../../devices/0000:00:03.0")
            .link("sys/class/net/eth2/device", "../../../devices/0000:00:04.0");
        let root = Root::at(tree.path());
        assert_eq!(Carried::list(&carried_beside(&root, "eth0")), "the default route of IPv4, through bond0, on eth1");
        assert_eq!(
            [carried_beside(&root, "eth1"), carried_beside(&root, "eth2")],
            [const { Vec::<Carried>::new() }; 2]
        );
    }
}
