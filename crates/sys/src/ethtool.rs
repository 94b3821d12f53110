//! What a network driver says of itself through `SIOCETHTOOL`: its name, and its self-test.
//!
//! The self-test is the one call here that may disturb: its offline part takes the interface out of service while it runs. Who may
//! ask for it is for the caller to see to.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use surefoot_hostfs::Error;

/// Commands of <linux/ethtool.h>.
const GET_DRIVER: u32 = 3;
const RUN_TEST: u32 = 0x1a;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_INFO: u32 = 0x37;
/// The set of strings that names the parts of the self-test.
const TEST_STRINGS: u32 = 0;
/// A string of any set.
const STRING_BYTES: usize = 32;
/// Flags of the self-test.
const OFFLINE: u32 = 1;
const FAILED: u32 = 2;
/// Parts of a self-test that are taken; drivers have about five.
const PARTS_MAX: usize = 256;
/// Bytes of what a driver says of itself.
const DRIVER_BYTES: usize = 196;

/// What a self-test came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// Whether the driver says that it failed.
    pub has_failed: bool,
    /// Each part with its value; 0 where it passed.
    pub parts: Vec<(String, u64)>,
}

/// The name of the driver of an interface.
///
/// # Errors
/// [`Error::System`], also where the driver does not say.
pub fn driver(interface: &str) -> Result<String, Error> {
    let mut words = [0u64; DRIVER_BYTES.div_ceil(8)];
    put(&mut words, 0, GET_DRIVER);
    call(interface, &mut words, "ask for its driver")?;
    Ok(text(&words, 4))
}

/// The parts that its self-test has; none where the driver has no self-test.
///
/// # Errors
/// [`Error::System`]; a driver without one may say that it does not support the question.
pub fn test_parts(interface: &str) -> Result<Vec<String>, Error> {
    const ACTION: &str = "ask for the parts of its self-test";
    // A mask of the sets that are asked for, and then a length for each that exists.
    let mut words = [0u64; 3];
    put(&mut words, 0, GET_SET_INFO);
    words[1] = 1 << TEST_STRINGS;
    call(interface, &mut words, ACTION)?;
    let count = if words[1] == 0 { 0 } else { get(&words, 4) as usize };
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > PARTS_MAX {
        return Err(failed(interface, ACTION, io::ErrorKind::InvalidData.into()));
    }
    let mut words = vec![0u64; (12 + count * STRING_BYTES).div_ceil(8)];
    put(&mut words, 0, GET_STRINGS);
    put(&mut words, 1, TEST_STRINGS);
    put(&mut words, 2, count as u32);
    call(interface, &mut words, ACTION)?;
    Ok((0..count).map(|part| text(&words, 12 + part * STRING_BYTES)).collect())
}

/// Runs the self-test: the part beside traffic, or also the one that interrupts it.
///
/// # Errors
/// [`Error::System`] where the driver has none or refuses it.
pub fn run_test(interface: &str, is_offline: bool) -> Result<TestResult, Error> {
    let names = test_parts(interface)?;
    if names.is_empty() {
        return Err(failed(interface, "run the self-test", io::ErrorKind::Unsupported.into()));
    }
    // The driver writes as many values as it has names.
    let mut words = vec![0u64; 2 + names.len()];
    put(&mut words, 0, RUN_TEST);
    put(&mut words, 1, if is_offline { OFFLINE } else { 0 });
    put(&mut words, 3, names.len() as u32);
    call(interface, &mut words, "run the self-test")?;
    let has_failed = get(&words, 1) & FAILED != 0;
    Ok(TestResult { has_failed, parts: names.into_iter().zip(words.drain(2..)).collect() })
}

/// The number at a place of 32 bits.
fn get(words: &[u64], at: usize) -> u32 {
    let bytes = words[at / 2].to_ne_bytes();
    let half = if at.is_multiple_of(2) {
        [bytes[0], bytes[1], bytes[2], bytes[3]]
    } else {
        [bytes[4], bytes[5], bytes[6], bytes[7]]
    };
    u32::from_ne_bytes(half)
}

fn put(words: &mut [u64], at: usize, number: u32) {
    let mut bytes = words[at / 2].to_ne_bytes();
    let from = at % 2 * 4;
    bytes[from..from + 4].copy_from_slice(&number.to_ne_bytes());
    words[at / 2] = u64::from_ne_bytes(bytes);
}

/// A text of 32 bytes at this byte.
fn text(words: &[u64], from: usize) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(from).take(STRING_BYTES).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// One call; `words` is the command's structure, as long as the kernel and the driver will write.
fn call(interface: &str, words: &mut [u64], action: &str) -> Result<(), Error> {
    // SAFETY: the call takes three numbers and returns a descriptor of its own or -1.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(failed(interface, action, io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was made by the call above, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: a request for an interface is numbers and one pointer, for which all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(&0) {
        return Err(failed(interface, action, io::ErrorKind::InvalidInput.into()));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the kernel reads and writes the structure of the command, for which the callers above make `words` long enough:
    // fixed sizes, or as many strings and values as the driver itself has said.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(failed(interface, action, io::Error::last_os_error())) } else { Ok(()) }
}

fn failed(interface: &str, action: &str, source: io::Error) -> Error {
    let remedy = match source.kind() {
        io::ErrorKind::PermissionDenied => "; CAP_NET_ADMIN is needed",
        io::ErrorKind::Unsupported => "; the driver has no self-test",
        _ if source.raw_os_error() == Some(libc::EOPNOTSUPP) => "; its driver does not have this",
        _ => "",
    };
    Error::System { action: format!("{action} ({})", surefoot_hostfs::shorten(interface)), source, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_stand_where_the_kernel_looks_for_them() {
        let mut words = [0u64; 6];
        put(&mut words, 0, 7);
        put(&mut words, 3, 9);
        assert_eq!((get(&words, 0), get(&words, 1), get(&words, 2), get(&words, 3)), (7, 0, 0, 9));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(
            (bytes[..4].to_vec(), bytes[12..16].to_vec()),
            (7u32.to_ne_bytes().into(), 9u32.to_ne_bytes().into())
        );
        words[1] = u64::from_ne_bytes(*b"Register");
        words[2] = u64::from_ne_bytes(*b" test\0x ");
        assert_eq!(text(&words, 8), "Register test");
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        for (name, says) in [("no-such-one", "No such device"), ("", "invalid"), ("much-too-long-a-name", "invalid")] {
            let error = driver(name).expect_err("no such interface").to_string();
            assert!(error.contains(name) && error.contains(says), "{error}");
        }
    }
}
