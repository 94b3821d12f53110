//! Does a step of a recovery: the only code here that changes the machine.

use crate::decide::target_of;
use crate::devlink::Devlink;
use crate::{Error, read};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::netlink::Transport;
use surefoot_model::{Interface, RecoveryKind, RecoveryOutcome, RecoveryStep};

/// How often switching on is tried: an interface that stays off is worse than one that hangs.
const ON_TRIES: u32 = 5;
const ON_PAUSE: Duration = Duration::from_millis(200);

/// Whether the PCI function below an interface can be reset.
pub fn can_reset(root: &Root, interface: &str) -> bool {
    reset_file(root, interface).exists()
}

fn reset_file(root: &Root, interface: &str) -> PathBuf {
    let device = root.sys("class/net").join(interface).join("device");
    let own = device.join("reset");
    // The device of virtio lies below the function. Of any other what lies above is a bridge, or a function with other devices.
    let is_virtio = || fs::canonicalize(device.join("subsystem")).is_ok_and(|bus| bus.ends_with("bus/virtio"));
    if !own.exists() && is_virtio() { device.join("../reset") } else { own }
}

/// Does a planned step, and gives it back with its outcome. Whatever it was planned for is looked up anew.
pub fn apply<T: Transport>(
    root: &Root,
    devlink: Option<&mut Devlink<T>>,
    interface: &Interface,
    step: &RecoveryStep,
) -> RecoveryStep {
    let done = match step.kind {
        RecoveryKind::ReporterRecover => recover(devlink, interface, &step.target),
        RecoveryKind::LinkCycle => cycle(root, &interface.name),
        RecoveryKind::FunctionReset => {
            let file = reset_file(root, &interface.name);
            write(&file, "1").map(|()| format!("wrote 1 to {}", file.display()))
        }
    };
    let (outcome, detail) = match done {
        Ok(detail) => (RecoveryOutcome::Done, detail),
        Err(error) => (RecoveryOutcome::Failed, error.to_string()),
    };
    RecoveryStep { outcome, detail, ..step.clone() }
}

fn recover<T: Transport>(
    devlink: Option<&mut Devlink<T>>,
    interface: &Interface,
    target: &str,
) -> Result<String, Error> {
    let missing = |why: &str| Error::Option { option: "--recover", why: why.to_owned() };
    let devlink = devlink.ok_or_else(|| missing("this kernel has no devlink"))?;
    let reporter = interface.reporters.iter().find(|one| target_of(one) == target);
    let reporter = reporter.ok_or_else(|| missing(&format!("there is no reporter {target} any more")))?;
    devlink.recover(reporter)?;
    Ok("the driver says that it recovered".to_owned())
}

/// Switches an interface off and on, through the flags in its folder. Whoever is ended in between leaves it off: see
/// [`switch_on_again`].
fn cycle(root: &Root, name: &str) -> Result<String, Error> {
    let (file, flags) = flags_of(root, name)?;
    write(&file, &format!("{:#x}", flags & !read::IS_UP))?;
    switch_on(&file, name, flags)?;
    Ok("switched off and on; addresses and routes of IPv6 on it may have to be set again".to_owned())
}

fn flags_of(root: &Root, name: &str) -> Result<(PathBuf, u32), Error> {
    let file = root.sys("class/net").join(name).join("flags");
    let gone = || Error::File { path: file.clone(), why: "the interface has gone".to_owned() };
    let flags = read::flags(root, name).ok_or_else(gone)?;
    Ok((file, flags))
}

fn switch_on(file: &Path, name: &str, flags: u32) -> Result<(), Error> {
    let mut tries = 1;
    while let Err(error) = write(file, &format!("{:#x}", flags | read::IS_UP)) {
        if tries == ON_TRIES {
            let why = format!("it was switched off and cannot be switched on again ({error}); `ip link set {name} up`");
            return Err(Error::File { path: file.to_path_buf(), why });
        }
        tries += 1;
        std::thread::sleep(ON_PAUSE);
    }
    Ok(())
}

/// Ends a link cycle that another process began and did not end: switches the interface on, where it is off. Gives the step back
/// with its outcome.
pub fn switch_on_again(root: &Root, step: &RecoveryStep) -> RecoveryStep {
    let is_on = |(file, flags): (PathBuf, u32)| match flags & read::IS_UP {
        0 => switch_on(&file, &step.interface, flags).map(|()| "was ended between off and on; switched on now"),
        _ => Ok("was ended before its end was written down; it is switched on"),
    };
    let (outcome, detail) = match flags_of(root, &step.interface).and_then(is_on) {
        Ok(detail) => (RecoveryOutcome::Done, format!("the process that began it {detail}")),
        Err(error) => (RecoveryOutcome::Failed, error.to_string()),
    };
    RecoveryStep { outcome, detail, ..step.clone() }
}

/// Writes a value to a file of the kernel that is there.
fn write(path: &Path, value: &str) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    let written = options.open(path).and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|error| Error::File { path: path.to_path_buf(), why: refusal(&error) })
}

fn refusal(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "it takes no value: CAP_NET_ADMIN and root are needed".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "it takes no value: /sys is mounted for reading only".to_owned(),
        _ => format!("it does not take the value: {error}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::devlink::Devlink;
    use surefoot_hostfs::netlink::Socket;
    use surefoot_testkit::HostTree;

    fn step(kind: RecoveryKind) -> RecoveryStep {
        RecoveryStep {
            at_realtime_ns: 1,
            interface: "eth0".into(),
            kind,
            target: "eth0".into(),
            reason: "it hangs".into(),
            outcome: RecoveryOutcome::Planned,
            detail: String::new(),
        }
    }

    fn applied(tree: &HostTree, kind: RecoveryKind) -> RecoveryStep {
        let interface = Interface { name: "eth0".into(), ..Interface::default() };
        apply::<Socket>(&Root::at(tree.path()), None::<&mut Devlink<Socket>>, &interface, &step(kind))
    }

    #[test]
    fn a_link_ends_switched_on_with_the_flags_that_it_had() {
        let tree = HostTree::new().file("sys/class/net/eth0/flags", "0x1002\n");
        let done = applied(&tree, RecoveryKind::LinkCycle);
        assert_eq!((done.outcome, done.reason.as_str()), (RecoveryOutcome::Done, "it hangs"));
        // The kernel's files keep nothing of what stood there before; this one keeps its last byte.
        assert_eq!(fs::read_to_string(tree.path().join("sys/class/net/eth0/flags")).unwrap().trim(), "0x1003");
    }

    #[test]
    fn a_link_that_was_left_switched_off_is_switched_on_and_one_that_is_on_is_left_alone() {
        let begun = RecoveryStep { outcome: RecoveryOutcome::Begun, ..step(RecoveryKind::LinkCycle) };
        for (flags, after, says) in [("0x1002", "0x1003", "switched on now"), ("0x1003", "0x1003", "it is switched on")]
        {
            let tree = HostTree::new().file("sys/class/net/eth0/flags", format!("{flags}\n"));
            let done = switch_on_again(&Root::at(tree.path()), &begun);
            assert_eq!((done.outcome, done.at_realtime_ns), (RecoveryOutcome::Done, begun.at_realtime_ns));
            assert!(done.detail.contains(says), "{done:?}");
            assert_eq!(fs::read_to_string(tree.path().join("sys/class/net/eth0/flags")).unwrap().trim(), after);
        }
        let failed = switch_on_again(&Root::at(HostTree::new().path()), &begun);
        assert_eq!((failed.outcome, failed.detail.contains("has gone")), (RecoveryOutcome::Failed, true));
    }

    #[test]
    fn a_function_is_reset_by_its_file_or_not_at_all() {
        let tree = HostTree::new().file("sys/class/net/eth0/device/reset", "");
        let root = Root::at(tree.path());
        assert!(can_reset(&root, "eth0") && !can_reset(&root, "eth1"));
        assert_eq!(applied(&tree, RecoveryKind::FunctionReset).outcome, RecoveryOutcome::Done);
        assert_eq!(fs::read_to_string(tree.path().join("sys/class/net/eth0/device/reset")).unwrap(), "1");
        let failed = applied(&HostTree::new(), RecoveryKind::FunctionReset);
        assert_eq!(failed.outcome, RecoveryOutcome::Failed);
        assert!(failed.detail.contains("eth0/device"), "{failed:?}");
        assert_eq!(applied(&tree, RecoveryKind::ReporterRecover).outcome, RecoveryOutcome::Failed);
        assert_eq!(applied(&tree, RecoveryKind::LinkCycle).detail.split(": ").last(), Some("the interface has gone"));
    }

    #[test]
    fn of_what_lies_above_a_device_only_the_function_of_virtio_is_reset() {
        for (bus, can) in [("virtio", true), ("auxiliary", false), ("pci", false)] {
            let tree = HostTree::new()
                .file("sys/devices/0000:00:03.0/reset", "")
                .folder("sys/devices/0000:00:03.0/below")
                .folder(format!("sys/bus/{bus}"))
                .link("sys/devices/0000:00:03.0/below/subsystem", format!("../../../bus/{bus}"))
                .link("sys/class/net/eth0/device", "../../../devices/0000:00:03.0/below");
            assert_eq!(can_reset(&Root::at(tree.path()), "eth0"), can, "{bus}");
        }
    }
}
