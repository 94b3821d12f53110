//! Netlink: questions to a generic family of the kernel, such as `devlink`, and to its [routing], and what they answer.
//!
//! Written out rather than taken from a library: a handful of questions need two hundred lines, whose every length is checked, where
//! the libraries bring tens of thousands or are young.
//!
//! Asking changes nothing. A family also has commands that do; who may send them is for its caller to see to: of ours the
//! `act` of `crates/interfaces` alone.

mod message;
pub mod routing;
mod socket;

pub use message::{Attributes, Question, attributes, string, unsigned};
pub use socket::Socket;

use message::Part;
use std::io;
use surefoot_hostfs::Error;

/// `GENL_ID_CTRL`: the family that knows the numbers of the others.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Things that one answer may hold; a machine has a few devices with a few reporters each.
const THINGS_MAX: usize = 16_384;
/// Datagrams of one answer.
const DATAGRAMS_MAX: usize = 16_384;

/// What carries datagrams to the kernel and back: its socket, or a record of what once passed.
pub trait Transport {
    /// Sends a datagram.
    ///
    /// # Errors
    /// What the kernel says.
    fn send(&mut self, datagram: &[u8]) -> io::Result<()>;

    /// Waits for the next datagram, not for ever.
    ///
    /// # Errors
    /// What the kernel says; `TimedOut` where it says nothing.
    fn receive(&mut self) -> io::Result<Vec<u8>>;
}

/// A family that answers.
#[derive(Debug)]
pub struct Family<T> {
    transport: T,
    name: &'static str,
    id: u16,
    version: u8,
    sequence: u32,
}

impl<T: Transport> Family<T> {
    /// Finds the family of this name.
    ///
    /// # Errors
    /// [`Error::System`]; [`Error::is_absent`] where this kernel has no such family.
    pub fn find(transport: T, name: &'static str, version: u8) -> Result<Self, Error> {
        let mut family = Family { transport, name: "nlctrl", id: CONTROL, version: 1, sequence: 0 };
        let attributes = Attributes::default().text(FAMILY_NAME, name);
        let question = Question { command: GET_FAMILY, is_for_all: false, attributes };
        let answer = family.ask(&question, &format!("find the netlink family {name}"))?;
        let id = answer.iter().flat_map(|thing| message::attributes(thing)).find(|(kind, _)| *kind == FAMILY_ID);
        let id = id.and_then(|(_, value)| unsigned(value)).and_then(|id| u16::try_from(id).ok());
        let Some(id) = id else {
            return Err(failed(&format!("find the netlink family {name}"), io::ErrorKind::InvalidData.into()));
        };
        Ok(Family { name, id, version, ..family })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Asks, and gives the attributes of each thing in the answer. `action` says what for, to follow "cannot".
    ///
    /// # Errors
    /// [`Error::System`], with the kernel's own words where it has some.
    pub fn ask(&mut self, question: &Question, action: &str) -> Result<Vec<Vec<u8>>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = question.bytes(self.id, self.version, self.sequence);
        let answer = exchange(&mut self.transport, &request, self.sequence, THINGS_MAX, action)?;
        let attributes = |(_, body): (u16, Vec<u8>)| body.get(message::GENERIC_BYTES..).map(<[u8]>::to_vec);
        let things: Option<Vec<Vec<u8>>> = answer.things.into_iter().map(attributes).collect();
        things.ok_or_else(|| failed(action, io::ErrorKind::InvalidData.into()))
    }
}

/// What the kernel answered.
struct Answer {
    /// The kind of each message, and what stands behind its header.
    things: Vec<(u16, Vec<u8>)>,
    /// Whether the list changed while it was made, so that something may be missing.
    is_interrupted: bool,
}

/// Sends a request and takes the answer to its end.
fn exchange(
    transport: &mut impl Transport,
    request: &[u8],
    sequence: u32,
    things_max: usize,
    action: &str,
) -> Result<Answer, Error> {
    transport.send(request).map_err(|source| failed(action, source))?;
    let mut answer = Answer { things: Vec::new(), is_interrupted: false };
    for _ in 0..DATAGRAMS_MAX {
        let datagram = transport.receive().map_err(|source| failed(action, source))?;
        let parts = message::parts(&datagram, sequence);
        let parts = parts.ok_or_else(|| failed(action, io::ErrorKind::InvalidData.into()))?;
        for part in parts {
            match part {
                Part::Thing(kind, body) if answer.things.len() < things_max => answer.things.push((kind, body)),
                Part::Thing(..) => return Err(failed(action, io::ErrorKind::FileTooLarge.into())),
                Part::Interrupted => answer.is_interrupted = true,
                Part::End => return Ok(answer),
                Part::Refused(number, words) => return Err(refused(action, number, &words)),
            }
        }
    }
    Err(failed(action, io::ErrorKind::FileTooLarge.into()))
}

fn refused(action: &str, number: i32, words: &str) -> Error {
    let source = io::Error::from_raw_os_error(number);
    let action = match words {
        "" => action.to_owned(),
        words => format!("{action} (the kernel says: {})", surefoot_hostfs::shorten(words)),
    };
    failed(&action, source)
}

fn failed(action: &str, source: io::Error) -> Error {
    let remedy = match source.kind() {
        io::ErrorKind::PermissionDenied => "; CAP_NET_ADMIN is needed",
        _ => "",
    };
    Error::System { action: action.to_owned(), source, remedy }
}
