//! What is not done, or not unasked: limits, hosts that look as if they were in use, and a second disturber.

mod in_use;
mod limits;
mod lock;
mod machine;

pub use in_use::evidence;
pub(crate) use limits::throttled;
pub use limits::{LENGTH_MAX_NS, PERIOD_MAX_NS, PERIOD_MIN_NS, SHARE_MAX_PERCENT, TOTAL_DEFAULT, check};
pub use lock::Lock;
pub(crate) use machine::check_machine;

use crate::Fault;
use surefoot_hostfs::Root;

/// The option by which a host that looks as if it were in use is disturbed all the same.
const SWITCH: &str = "--even-if-in-use does it all the same";

/// Permission to disturb the cores of a host, for as long as it is held.
#[derive(Debug)]
pub struct Permit {
    _lock: Lock,
    /// What says that the host is in use, where it was asked for all the same.
    pub overruled: Vec<String>,
}

impl Permit {
    /// Asks for it. `own_user` is the person who asks.
    ///
    /// # Errors
    /// [`Fault::InUse`], [`Fault::Busy`], or [`Fault::File`] where the lock cannot be had.
    pub fn ask(root: &Root, own_user: u32, even_if_in_use: bool) -> Result<Permit, Fault> {
        let evidence = evidence(root, own_user);
        if !evidence.is_empty() && !even_if_in_use {
            return Err(Fault::InUse { evidence, switch: SWITCH });
        }
        Ok(Permit { _lock: Lock::take(root)?, overruled: evidence })
    }
}
