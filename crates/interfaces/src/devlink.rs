//! What drivers report of the health of their devices, over the netlink family `devlink`.
//!
//! A reporter watches a part of a device: its send queues, its firmware. It counts the errors that it saw and the recoveries that
//! succeeded, keeps a dump of the first error, and is in the state *error* from an error until a recovery succeeds.

use crate::Error;
use std::collections::BTreeMap;
use surefoot_hostfs::Unsupported;
use surefoot_model::{HealthReporter, ReporterState};
use surefoot_sys::netlink::{Attributes, Family, Question, Socket, Transport, attributes, string, unsigned};

/// Commands of <linux/devlink.h>.
const GET_PORT: u8 = 5;
const GET_REPORTER: u8 = 52;
const RECOVER: u8 = 54;
/// Attributes.
const BUS: u16 = 1;
const DEVICE: u16 = 2;
const PORT: u16 = 3;
const PORT_INTERFACE: u16 = 7;
const REPORTER: u16 = 114;
const NAME: u16 = 115;
const STATE: u16 = 116;
const ERROR_COUNT: u16 = 117;
const RECOVER_COUNT: u16 = 118;
const DUMP_JIFFIES: u16 = 119;
const GRACE_PERIOD_MS: u16 = 120;
const AUTO_RECOVER: u16 = 121;
const DUMP_NS: u16 = 137;

/// The devices that the kernel's devlink knows.
#[derive(Debug)]
pub struct Devlink<T> {
    family: Family<T>,
}

/// What devlink says of all devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// Every reporter.
    pub reporters: Vec<HealthReporter>,
    /// The interface of a device's port.
    pub ports: BTreeMap<(String, u32), String>,
}

impl Devlink<Socket> {
    /// Asks the running kernel.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it has no devlink, [`Error::Host`] where the call fails.
    pub fn open() -> Result<Self, Error> {
        Devlink::over(Socket::open().map_err(Error::of_host)?)
    }
}

impl<T: Transport> Devlink<T> {
    /// Asks over this transport.
    ///
    /// # Errors
    /// As [`Devlink::open`].
    pub fn over(transport: T) -> Result<Self, Error> {
        match Family::find(transport, "devlink", 1) {
            Ok(family) => Ok(Devlink { family }),
            Err(error) if error.is_absent() => Err(Error::Unsupported(Unsupported::new(
                "no driver here supports devlink, so there are no health reporters",
                "",
            ))),
            Err(error) => Err(Error::of_host(error)),
        }
    }

    /// Everything that is reported now.
    ///
    /// # Errors
    /// [`Error::Host`] with the kernel's own words.
    pub fn reported(&mut self) -> Result<Reported, Error> {
        let all = |command| Question { command, is_for_all: true, attributes: Attributes::default() };
        let ports = self.family.ask(&all(GET_PORT), "list the ports of devlink").map_err(Error::of_host)?;
        let things = self.family.ask(&all(GET_REPORTER), "list the health reporters of devlink");
        let reporters = things.map_err(Error::of_host)?.iter().filter_map(|thing| reporter(thing)).collect();
        Ok(Reported { reporters, ports: ports.iter().filter_map(|thing| port(thing)).collect() })
    }

    /// Asks a reporter's driver to recover. The only command here that changes the machine; `act` alone gives it.
    pub(crate) fn recover(&mut self, reporter: &HealthReporter) -> Result<(), Error> {
        let (bus, device) = reporter.device.split_once('/').unwrap_or((&reporter.device, ""));
        let mut attributes = Attributes::default().text(BUS, bus).text(DEVICE, device);
        if let Some(port) = reporter.port {
            attributes = attributes.number(PORT, port);
        }
        let question =
            Question { command: RECOVER, is_for_all: false, attributes: attributes.text(NAME, &reporter.name) };
        let action = format!("recover by the reporter {} of {}", reporter.name, reporter.device);
        self.family.ask(&question, &action).map(|_| ()).map_err(Error::of_host)
    }
}

/// The device of a thing, as `devlink` writes it.
fn device(thing: &[u8]) -> Option<String> {
    let of = |wanted| attributes(thing).find(|(kind, _)| *kind == wanted).map(|(_, value)| string(value));
    Some(format!("{}/{}", of(BUS)?, of(DEVICE)?))
}

fn port_number(thing: &[u8]) -> Option<u32> {
    let (_, value) = attributes(thing).find(|(kind, _)| *kind == PORT)?;
    u32::try_from(unsigned(value)?).ok()
}

fn port(thing: &[u8]) -> Option<((String, u32), String)> {
    let (_, interface) = attributes(thing).find(|(kind, _)| *kind == PORT_INTERFACE)?;
    Some(((device(thing)?, port_number(thing)?), string(interface)))
}

fn reporter(thing: &[u8]) -> Option<HealthReporter> {
    let (_, inner) = attributes(thing).find(|(kind, _)| *kind == REPORTER)?;
    let find = |wanted| attributes(inner).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let number = |wanted| find(wanted).and_then(unsigned);
    let state = match number(STATE) {
        Some(0) => ReporterState::Healthy,
        Some(1) => ReporterState::Error,
        _ => ReporterState::Unknown,
    };
    Some(HealthReporter {
        device: device(thing)?,
        port: port_number(thing),
        name: string(find(NAME)?),
        state,
        error_count: number(ERROR_COUNT).unwrap_or(0),
        recover_count: number(RECOVER_COUNT).unwrap_or(0),
        has_dump: number(DUMP_JIFFIES).is_some() || number(DUMP_NS).is_some(),
        dump_realtime_ns: number(DUMP_NS),
        auto_recover: number(AUTO_RECOVER).map(|is_on| is_on == 1),
        grace_period_ms: number(GRACE_PERIOD_MS),
    })
}
