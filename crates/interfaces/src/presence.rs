//! Whether this host has network interfaces to look at.

use crate::{Error, read};
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces, sys_shows_our_network};
use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::{Capability, CapabilityState};

/// Why nothing is known of this host's interfaces, and what to do; `None` where it has any beside loopback.
pub fn unsupported(root: &Root) -> Option<Unsupported> {
    if root.is_host() && sys_shows_our_network(root) == Some(false) {
        return Some(Unsupported::new(
            "/sys shows the interfaces of another network namespace than this process is in",
            "mount a /sys of this namespace, as `ip netns exec` does, or run Surefoot in the network namespace of that /sys",
        ));
    }
    let remedy = match root.is_host() {
        true => "run Surefoot in the network namespace that has the interfaces",
        false => "record the tree with its sys/class/net",
    };
    match read::names(root, None) {
        Ok((names, _)) if !names.is_empty() => None,
        Ok(_) => Some(Unsupported::new("no network interface except loopback", remedy)),
        Err(Error::Host(error)) => Some(Unsupported::of(&error, remedy)),
        Err(error) => Some(match &error {
            Error::List { source, .. } => Unsupported::because(source, error.to_string(), remedy),
            _ => Unsupported::new(error.to_string(), remedy),
        }),
    }
}

/// Whether the interfaces are those of another network namespace than the host's.
pub fn of_another(root: &Root) -> bool {
    root.is_host() && matches!(Namespaces::of_this_process().place(Kind::Network), Namespace::Other(_))
}

/// The row of `surefoot status`.
pub fn capability(root: &Root) -> Capability {
    let (state, reason, remedy) = match (unsupported(root), read::names(root, None)) {
        (None, Ok((names, _))) => {
            let hardware = names.iter().filter(|name| read::has_device(root, name)).count();
            let all = names.len();
            let words = if all == 1 { "1 interface".to_owned() } else { format!("{all} interfaces") };
            let seen = format!("{words}, {hardware} backed by a device");
            match of_another(root) {
                false => (CapabilityState::Works, seen, String::new()),
                true => (
                    CapabilityState::Reduced,
                    format!(
                        "{seen}, of this network namespace only: those of the host and of other namespaces are not visible"
                    ),
                    "run Surefoot in the host's network namespace to see the host's".to_owned(),
                ),
            }
        }
        (Some(missing), _) => (CapabilityState::Unsupported, missing.why, missing.remedy),
        (None, Err(error)) => (CapabilityState::Unsupported, error.to_string(), String::new()),
    };
    Capability { id: "nic.health".into(), name: "state of each network interface".into(), state, reason, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn interfaces_are_counted_and_loopback_is_none() {
        let tree = HostTree::new().file("sys/class/net/lo/type", "772\n").file("sys/class/net/eth0/type", "1\n");
        let row = capability(&Root::at(tree.path()));
        assert_eq!((row.state, row.reason.as_str()), (CapabilityState::Works, "1 interface, 0 backed by a device"));
        let tree = tree.without("sys/class/net/eth0");
        let row = capability(&Root::at(tree.path()));
        assert_eq!(row.state, CapabilityState::Unsupported);
        assert!(row.reason.contains("loopback"), "{row:?}");
        let row = capability(&Root::at(HostTree::new().path()));
        assert!(row.reason.contains("class/net") && row.remedy.contains("record the tree"), "{row:?}");
    }
}
