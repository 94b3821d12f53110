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
use surefoot_model::{Deed, DeedAction, DeedOutcome, DeedTarget, Interface, Observed};
use surefoot_sys::netlink::Transport;

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

/// Does a planned step, and says what came of it. Whatever it was planned for is looked up anew.
pub fn apply<T: Transport>(
    root: &Root,
    devlink: Option<&mut Devlink<T>>,
    interface: &Interface,
    step: &Deed,
) -> DeedOutcome {
    let done = match (step.action, &step.target) {
        (DeedAction::ReporterRecover, DeedTarget::Part { name }) => recover(devlink, interface, name),
        (DeedAction::LinkCycle, _) => cycle(root, &interface.name),
        (DeedAction::FunctionReset, _) => write(&reset_file(root, &interface.name), "1").map(|()| Observed::Accepted),
        (action, _) => Err(Error::Option {
            option: "--recover",
            why: format!("{} is not a step for an interface", action.as_str()),
        }),
    };
    outcome(done)
}

fn outcome(done: Result<Observed, Error>) -> DeedOutcome {
    match done {
        Ok(observed) => DeedOutcome::Done { observed },
        Err(error) => DeedOutcome::Failed { error: error.to_string() },
    }
}

fn recover<T: Transport>(
    devlink: Option<&mut Devlink<T>>,
    interface: &Interface,
    target: &str,
) -> Result<Observed, Error> {
    let missing = |why: &str| Error::Option { option: "--recover", why: why.to_owned() };
    let devlink = devlink.ok_or_else(|| missing("this kernel has no devlink"))?;
    let reporter = interface.reporters.iter().find(|one| target_of(one) == target);
    let reporter = reporter.ok_or_else(|| missing(&format!("reporter {target} no longer exists")))?;
    devlink.recover(reporter)?;
    Ok(Observed::DriverRecovered)
}

/// Switches an interface off and on, through the flags in its folder. Whoever is ended in between leaves it off: see
/// [`switch_on_again`].
fn cycle(root: &Root, name: &str) -> Result<Observed, Error> {
    let (file, flags) = flags_of(root, name)?;
    write(&file, &format!("{:#x}", flags & !read::IS_UP))?;
    switch_on(&file, name, flags)?;
    Ok(Observed::LinkCycled)
}

fn flags_of(root: &Root, name: &str) -> Result<(PathBuf, u32), Error> {
    let file = root.sys("class/net").join(name).join("flags");
    let gone = || Error::File { path: file.clone(), why: "the interface no longer exists".to_owned() };
    let flags = read::flags(root, name).ok_or_else(gone)?;
    Ok((file, flags))
}

fn switch_on(file: &Path, name: &str, flags: u32) -> Result<(), Error> {
    let mut tries = 1;
    while let Err(error) = write(file, &format!("{:#x}", flags | read::IS_UP)) {
        if tries == ON_TRIES {
            let why =
                format!("it was taken down and cannot be brought up again ({error}); run `ip link set {name} up`");
            return Err(Error::File { path: file.to_path_buf(), why });
        }
        tries += 1;
        std::thread::sleep(ON_PAUSE);
    }
    Ok(())
}

/// Ends a link cycle that another process began and did not end: switches the interface on, where it is off.
pub fn switch_on_again(root: &Root, interface: &str) -> DeedOutcome {
    let is_on = |(file, flags): (PathBuf, u32)| match flags & read::IS_UP {
        0 => switch_on(&file, interface, flags).map(|()| Observed::LinkSwitchedOn),
        _ => Ok(Observed::LinkWasOn),
    };
    outcome(flags_of(root, interface).and_then(is_on))
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
        io::ErrorKind::PermissionDenied => "cannot be written: needs root and CAP_NET_ADMIN".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "cannot be written: /sys is mounted read-only".to_owned(),
        _ => format!("write refused: {error}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::devlink::Devlink;
    use surefoot_sys::netlink::Socket;
    use surefoot_testkit::HostTree;

    fn step(action: DeedAction) -> Deed {
        let target = DeedTarget::Part { name: "pci/0000:01:00.0 tx".into() };
        Deed { target, ..crate::decide::tests::step(action, 0, DeedOutcome::Planned) }
    }

    fn applied(tree: &HostTree, action: DeedAction) -> DeedOutcome {
        let interface = Interface { name: "eth0".into(), ..Interface::default() };
        apply::<Socket>(&Root::at(tree.path()), None::<&mut Devlink<Socket>>, &interface, &step(action))
    }

    #[test]
    fn a_link_ends_switched_on_with_the_flags_that_it_had() {
        let tree = HostTree::new().file("sys/class/net/eth0/flags", "0x1002\n");
        assert_eq!(applied(&tree, DeedAction::LinkCycle), DeedOutcome::Done { observed: Observed::LinkCycled });
        // The kernel's files keep nothing of what stood there before; this one keeps its last byte.
        assert_eq!(fs::read_to_string(tree.path().join("sys/class/net/eth0/flags")).unwrap().trim(), "0x1003");
    }

    #[test]
    fn a_link_that_was_left_switched_off_is_switched_on_and_one_that_is_on_is_left_alone() {
        for (flags, after, observed) in
            [("0x1002", "0x1003", Observed::LinkSwitchedOn), ("0x1003", "0x1003", Observed::LinkWasOn)]
        {
            let tree = HostTree::new().file("sys/class/net/eth0/flags", format!("{flags}\n"));
            assert_eq!(switch_on_again(&Root::at(tree.path()), "eth0"), DeedOutcome::Done { observed });
            assert_eq!(fs::read_to_string(tree.path().join("sys/class/net/eth0/flags")).unwrap().trim(), after);
        }
        let failed = switch_on_again(&Root::at(HostTree::new().path()), "eth0");
        assert!(is_failed(&failed, "no longer exists"), "{failed:?}");
    }

    #[test]
    fn a_function_is_reset_by_its_file_or_not_at_all() {
        let tree = HostTree::new().file("sys/class/net/eth0/device/reset", "");
        let root = Root::at(tree.path());
        assert!(can_reset(&root, "eth0") && !can_reset(&root, "eth1"));
        assert_eq!(applied(&tree, DeedAction::FunctionReset), DeedOutcome::Done { observed: Observed::Accepted });
        assert_eq!(fs::read_to_string(tree.path().join("sys/class/net/eth0/device/reset")).unwrap(), "1");
        for (tree, action, why) in [
            (&HostTree::new(), DeedAction::FunctionReset, "eth0/device"),
            (&tree, DeedAction::ReporterRecover, "no devlink"),
            (&tree, DeedAction::LinkCycle, "the interface no longer exists"),
            (&tree, DeedAction::Reboot, "reboot is not a step"),
        ] {
            let failed = applied(tree, action);
            assert!(is_failed(&failed, why), "{failed:?}");
        }
    }

    fn is_failed(outcome: &DeedOutcome, why: &str) -> bool {
        matches!(outcome, DeedOutcome::Failed { error } if error.contains(why))
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
