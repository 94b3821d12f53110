//! What fault tolerance costs: the same messages with the library and firmware of each stack, in virtual time and by the
//! clock, and what the kernel's own ways do on the same machine.
//!
//! | what | file |
//! |---|---|
//! | bandwidth, latency, instructions and self-test in virtual time: the same figures at each run | `exact.rs` |
//! | bandwidth and latency by the clock, interfaces as threads of this process | `clock.rs` |
//! | what the library itself takes of the host's processor for a message | `library.rs` |
//! | UDP on the loopback, packets over veth | `peers.rs` |

mod clock;
mod exact;
mod library;
mod peers;

pub use clock::{ByClock, by_clock};
pub use exact::{Exact, Stream, Tested, exact, tested};
pub use library::{LibraryCost, library_cost};
pub use peers::{Peers, packets, udp};

use crate::firmware::Build;
use crate::host::daemon::DaemonConfig;
use crate::host::driver::OpenError;
use crate::host::port::{Message, Port, PortConfig, RequestError, Service};
use crate::host::selftest::SelfTestConfig;
use crate::host::streams::Peer;
use crate::live;
use std::time::Duration;

/// The longest message that is measured: four slots and four buffers of this size fit a port's memory.
pub const BYTES_MAX: u32 = 1 << SIZE_CLASS;
/// The shortest: what the traffic of a world says of a message needs so much.
pub const BYTES_MIN: u32 = 12;

const SIZE_CLASS: u8 = 15;
const PAGES: u32 = 64;
const SLOTS: u32 = 4;
/// Exchanges before the first that counts: pages are translated, caches warm.
const WARM_UP: u32 = 8;
/// Without any event for so long, something is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a figure could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The parts could not be started, or the system refused.
    #[error(transparent)]
    Live(#[from] live::Error),
    /// A port could not be opened.
    #[error("a port cannot be opened: {0}")]
    Port(#[from] OpenError),
    /// The library refused a request.
    #[error("the library refuses a request: {0}")]
    Request(#[from] RequestError),
    /// What should have come did not.
    #[error("{0}")]
    Stuck(String),
}

/// A way to use an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// Without detection and recovery: GM.
    Plain,
    /// With watchdog and self-test: FDGM.
    Detecting,
    /// With recovery, as the paper describes it: FTGM.
    Tolerant,
    /// The same with every message verified from library to library: beyond the paper.
    Verified,
}

impl Stack {
    /// All of them; shares are of the first.
    pub const ALL: [Stack; 4] = [Stack::Plain, Stack::Detecting, Stack::Tolerant, Stack::Verified];

    /// Its name in lines.
    pub fn name(self) -> &'static str {
        match self {
            Stack::Plain => "gm",
            Stack::Detecting => "fdgm",
            Stack::Tolerant => "ftgm",
            Stack::Verified => "ftgm_verified",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Stack::Plain => "GM",
            Stack::Detecting => "FDGM",
            Stack::Tolerant => "FTGM",
            Stack::Verified => "FTGM, verified",
        }
    }

    fn build(self) -> Build {
        match self {
            Stack::Plain => Build::Plain,
            Stack::Detecting => Build::Detecting,
            Stack::Tolerant | Stack::Verified => Build::Tolerant,
        }
    }

    fn daemon(self, self_test: Option<SelfTestConfig>) -> Option<DaemonConfig> {
        let numbers = self.build() == Build::Tolerant;
        let daemon = DaemonConfig { self_test, verifies: self == Stack::Verified, numbers, ..DaemonConfig::default() };
        (self != Stack::Plain).then_some(daemon)
    }

    fn port(self, waits_for_test: bool) -> PortConfig {
        let numbers = self.build() == Build::Tolerant;
        PortConfig { numbers, verifies: self == Stack::Verified, waits_for_test, ..PortConfig::plain(PAGES) }
    }
}

/// Provides the buffers, behind the slots to send from.
fn provide_all(port: &mut Port) -> Result<(), RequestError> {
    (0..SLOTS).try_for_each(|slot| port.provide(slot, (SLOTS + slot) * BYTES_MAX, SIZE_CLASS, 0))
}

/// Sends what lies in the slot of this token to port 1 of a node.
fn send(port: &mut Port, token: u32, to: u8, length: u32) -> Result<(), RequestError> {
    let to = Peer { node: to, port: 1, priority: 0 };
    let service = Service::Normal { size_class: SIZE_CLASS };
    port.send(Message { token, address: token % SLOTS * BYTES_MAX, length, to, service })
}

fn median(values: &mut [u64]) -> f64 {
    values.sort_unstable();
    values.get(values.len() / 2).map_or(0.0, |ns| *ns as f64)
}
