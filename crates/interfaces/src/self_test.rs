//! The self-test of an interface's driver. The part that interrupts traffic is run only on an interface that is switched off, or
//! when that was asked for twice.

use crate::Error;
use surefoot_model::{Carried, Interface, SelfTest, SelfTestPart};
use surefoot_sys::ethtool;

/// Which parts are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those that run beside traffic.
    Online,
    /// All; the interface is out of service while they run.
    Offline,
}

/// Whether the test may be run: why not, and how to ask for it all the same.
///
/// # Errors
/// [`Error::InUse`] for an offline test of an interface that is switched on, unless that was asked for twice.
pub fn allowed(interface: &Interface, mode: Mode, even_in_use: bool) -> Result<(), Error> {
    if mode == Mode::Online || even_in_use || !interface.is_up {
        return Ok(());
    }
    let carries = match interface.carries.as_slice() {
        [] => String::new(),
        reasons => format!(" and carries {}", Carried::list(reasons)),
    };
    Err(Error::InUse(format!(
        "{} is in use: it is switched on{carries}. An offline self-test takes it out of service for seconds; switch it off first, or \
         add --even-in-use",
        interface.name
    )))
}

/// Runs it. A driver without one, or without the privilege for it, is a result that says so.
///
/// # Errors
/// As [`allowed`].
pub fn run(interface: &Interface, mode: Mode, even_in_use: bool) -> Result<SelfTest, Error> {
    allowed(interface, mode, even_in_use)?;
    let is_offline = mode == Mode::Offline;
    Ok(match ethtool::run_test(&interface.name, is_offline) {
        Ok(result) => SelfTest {
            is_offline,
            has_passed: !result.has_failed,
            parts: result.parts.into_iter().map(|(name, value)| SelfTestPart { name, value }).collect(),
            why_not: None,
        },
        Err(error) => SelfTest { is_offline, has_passed: false, parts: Vec::new(), why_not: Some(why_not(&error)) },
    })
}

fn why_not(error: &surefoot_hostfs::Error) -> String {
    match error {
        surefoot_hostfs::Error::System { source, .. } if source.kind() == std::io::ErrorKind::Unsupported => {
            "the driver has no self-test".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_offline_test_of_an_interface_in_use_is_asked_for_twice() {
        let carries = vec![Carried::new(surefoot_model::CarriedKind::DefaultRoute, "the default route of IPv4")];
        let used = Interface { name: "no-such-eth0".into(), is_up: true, carries, ..Interface::default() };
        let error = run(&used, Mode::Offline, false).unwrap_err().to_string();
        assert!(error.contains("carries the default route of IPv4") && error.contains("--even-in-use"), "{error}");
        assert!(allowed(&used, Mode::Offline, true).is_ok() && allowed(&used, Mode::Online, false).is_ok());
        let off = Interface { is_up: false, ..used };
        assert!(allowed(&off, Mode::Offline, false).is_ok());
    }

    #[test]
    fn an_interface_without_a_self_test_says_so() {
        let lo = Interface { name: "lo".into(), ..Interface::default() };
        let test = run(&lo, Mode::Online, false).unwrap();
        assert_eq!((test.has_passed, test.why_not.as_deref()), (false, Some("the driver has no self-test")));
    }
}
