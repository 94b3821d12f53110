//! Two network namespaces with a pair of veth devices between them. They have no names and are held open by this process: when
//! it ends, however it ends, they are gone.

use super::Error;
use super::wire::MTU_MIN;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::process::Command;
use std::sync::mpsc;
use surefoot_sys::packet::Address;

/// Name of the device in each of them.
pub const DEVICE: &str = "sf0";

/// What the devices carry at once.
const MTU: usize = 9000;
const _: () = assert!(MTU >= MTU_MIN);

/// The two namespaces.
#[derive(Debug)]
pub struct Namespaces {
    files: [File; 2],
    /// Hardware addresses of the two devices.
    pub addresses: [Address; 2],
}

/// Locally administered addresses; nobody else is on this wire.
const ADDRESSES: [Address; 2] = [[0x02, 0x53, 0x46, 0, 0, 1], [0x02, 0x53, 0x46, 0, 0, 2]];

impl Namespaces {
    /// Makes them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] without the privilege, and without `ip` of iproute2.
    pub fn make() -> Result<Self, Error> {
        // A namespace belongs to a thread; the second one lives until the device has been put into its namespace.
        let (far_file, far_id, far_end) = held()?;
        let near = std::thread::scope(|scope| scope.spawn(|| near(far_id)).join());
        drop(far_end);
        let near_file = near.map_err(|_| Error::Failed("a thread panicked".to_owned()))??;
        let namespaces = Namespaces { files: [near_file, far_file], addresses: ADDRESSES };
        for (node, address) in ADDRESSES.into_iter().enumerate() {
            namespaces.within(node, || {
                let address = text(address);
                ip(&["link", "set", DEVICE, "address", &address])?;
                ip(&["link", "set", DEVICE, "up"])
            })?;
        }
        Ok(namespaces)
    }

    /// The descriptor of one, for [`enter`].
    pub fn descriptor(&self, node: usize) -> RawFd {
        self.files[node].as_raw_fd()
    }

    /// Does something inside of one.
    fn within(&self, node: usize, work: impl FnOnce() -> Result<(), Error> + Send) -> Result<(), Error> {
        let descriptor = self.descriptor(node);
        let done = std::thread::scope(|scope| {
            let enter_and_work =
                || enter(descriptor).map_err(Error::system("enter a network namespace")).and_then(|()| work());
            scope.spawn(enter_and_work).join()
        });
        done.map_err(|_| Error::Failed("a thread panicked".to_owned()))?
    }
}

/// The calling thread is in this namespace from now on.
///
/// # Errors
/// What the system says.
pub fn enter(descriptor: RawFd) -> std::io::Result<()> {
    // SAFETY: takes two numbers.
    if unsafe { libc::setns(descriptor, libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// A new namespace for the calling thread.
fn unshare() -> Result<File, Error> {
    // SAFETY: takes a number; it concerns the calling thread alone, whose network nobody else uses.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        let why = "a network namespace cannot be made";
        return Err(match error.raw_os_error() {
            Some(libc::EPERM) => {
                Error::Unsupported(format!("{why} without CAP_SYS_ADMIN: run it as root, or use --link udp"))
            }
            _ => Error::Unsupported(format!("{why} here: {error}; use --link udp")),
        });
    }
    File::open("/proc/thread-self/ns/net").map_err(Error::system("open /proc/thread-self/ns/net"))
}

/// A namespace whose thread lives until the sender is dropped.
fn held() -> Result<(File, u32, mpsc::Sender<()>), Error> {
    let (made, is_made) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = made.send(unshare().map(|file| (file, surefoot_sys::thread::current_tid())));
        let _ = ended.recv();
    });
    let (file, id) = is_made.recv().map_err(|_| Error::Failed("a thread panicked".to_owned()))??;
    Ok((file, id, end))
}

fn near(far_id: u32) -> Result<File, Error> {
    let file = unshare()?;
    let (mtu, far) = (MTU.to_string(), far_id.to_string());
    let pair = ["type", "veth", "peer", "name", DEVICE, "mtu", &mtu, "netns", &far];
    ip(&[&["link", "add", "name", DEVICE, "mtu", &mtu][..], &pair].concat())?;
    Ok(file)
}

fn text(address: Address) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs `ip` in the namespace of the calling thread.
fn ip(words: &[&str]) -> Result<(), Error> {
    let output = Command::new("ip").args(words).output();
    let output = output
        .map_err(|error| Error::Unsupported(format!("`ip` of iproute2 cannot be run: {error}; use --link udp")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Unsupported(format!("`ip {}` says: {said}; use --link udp", words.join(" "))))
}
