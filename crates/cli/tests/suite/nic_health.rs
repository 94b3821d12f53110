//! `surefoot nic health`: the whole output on a made-up host, exit codes, and what is refused.
#![allow(clippy::unwrap_used)]

use super::golden::compare;
use std::path::Path;
use std::process::{Command, Output};
use surefoot_testkit::HostTree;

/// A bond of two ports that carries the default route, of which one has no link; and a spare that is switched off.
fn host() -> HostTree {
    let route = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                 bond0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    let mut tree = HostTree::new()
        .file("proc/net/route", route)
        .file("sys/class/net/lo/type", "772\n")
        .file("sys/class/net/bonding_masters", "bond0\n")
        .folder("sys/class/net/bond0/lower_eth0")
        .folder("sys/class/net/bond0/lower_eth1")
        .folder("sys/bus/pci/drivers/ixgbe");
    for (name, flags, carrier, speed) in [
        ("bond0", "0x1443", "1", "10000"),
        ("eth0", "0x1843", "1", "10000"),
        ("eth1", "0x1803", "0", "-1"),
        ("eth2", "0x1002", "", ""),
    ] {
        let file = |name_of: &str| format!("sys/class/net/{name}/{name_of}");
        tree = tree
            .file(file("type"), "1\n")
            .file(file("flags"), format!("{flags}\n"))
            .file(file("carrier"), format!("{carrier}\n"))
            .file(file("speed"), format!("{speed}\n"))
            .file(file("carrier_changes"), "3\n")
            .file(file("statistics/rx_packets"), "123456\n")
            .file(file("statistics/rx_errors"), "7\n");
        let others = [
            "tx_packets",
            "rx_bytes",
            "tx_bytes",
            "rx_crc_errors",
            "rx_missed_errors",
            "rx_dropped",
            "tx_errors",
            "tx_dropped",
        ];
        for counter in others {
            tree = tree.file(file(&format!("statistics/{counter}")), "0\n");
        }
        if name != "bond0" {
            let device = format!("sys/devices/0000:3b:00.{}", &name[3..]);
            tree = tree
                .file(file("queues/tx-0/tx_timeout"), "1\n")
                .file(file("queues/tx-1/tx_timeout"), "2\n")
                .link(file("device"), format!("../../../../{device}"))
                .link(format!("{device}/driver"), "../../bus/pci/drivers/ixgbe")
                .link(format!("{device}/subsystem"), "../../bus/pci");
        }
    }
    tree
}

fn health(tree: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["nic", "health", "--host-root"]).arg(tree).args(options).output().unwrap()
}

#[test]
fn a_host_is_shown_as_its_golden_files_say() {
    let tree = host();
    for (ending, options) in [("txt", &[][..]), ("jsonl", &["--json"])] {
        let output = health(tree.path(), options);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION");
        compare(&format!("nic-health-bond.{ending}"), &text);
    }
}

#[test]
fn a_host_without_interfaces_is_not_supported() {
    let output = health(HostTree::new().file("sys/class/net/lo/type", "772\n").path(), &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no network interface except loopback"), "{output:?}");
}

#[test]
fn options_that_cannot_be_are_named() {
    let tree = host();
    let cases: [(&[&str], &str); 17] = [
        (&["--interface", "eth9"], "--interface eth9: there is no such interface"),
        (&["--recover"], "--recover"),
        (&["--yes"], "--recover"),
        (&["--baseline", "usual"], "--probe"),
        (&["--probe", "192.0.2.7"], "--probe"),
        (&["--self-test", "offline", "--interface", "eth0"], "--self-test"),
        (&["--count", "0"], "--count"),
        (&["--over", "5000s"], "--over: 5000 s in all are over an hour"),
        (&["--wait", "2s"], "--wait: it is of probes: add --probe"),
        (&["--slow-over", "2ms"], "--slow-over: it is of probes"),
        (&["--period", "2s"], "--period: it is of --watch"),
        (&["--duration", "2s"], "--duration: it is of --watch"),
        (&["--grace", "2s"], "--grace: it is of --recover"),
        (&["--watch", "--over", "2s"], "--over: it is of one look"),
        (&["--watch", "--answer-delay", "2ms"], "--answer-delay: it is of --answer"),
        (&["--interface", "lo"], "--interface lo: the loopback is left out"),
        (&["--even-in-use"], "--even-in-use: it needs --recover or --self-test"),
    ];
    for (options, says) in cases {
        let output = health(tree.path(), options);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(says), "{options:?}: {output:?}");
    }
}
