//! The open ports, by handles that are numbers and no addresses.

use crate::failure::Failure;
use crate::{Handle, outcome_of};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_nic::host::port::{Event, Port};

/// What is told how a send ended.
pub type Callback = unsafe extern "C" fn(Handle, *mut c_void, c_int);

/// The most ports that are open at once: of some interfaces all.
const OPEN_MAX: usize = 64;
/// The longest sleep without a look: what the library sends again by itself is looked for that often.
const SLEEP_NS_MAX: u64 = 5_000_000;

/// A port and the callbacks of its sends.
pub struct Open {
    pub port: Port,
    /// The process that opened it.
    owner: u32,
    pub next_token: u32,
    pub callbacks: BTreeMap<u32, (Option<Callback>, usize)>,
    /// Events that the program was told of as unknown and has not handed back yet.
    unknown: VecDeque<Event>,
}

impl Open {
    pub fn new(port: Port) -> Self {
        Open { port, owner: std::process::id(), next_token: 1, callbacks: BTreeMap::new(), unknown: VecDeque::new() }
    }

    /// A child of the process that opened it has no port, nor has anybody whose port the daemon has closed.
    fn is_ours(&self) -> Result<(), Failure> {
        let own = std::process::id();
        if own != self.owner {
            return Err(Failure::Open(format!(
                "process {} has opened this port, and this is process {own}: open it after the fork",
                self.owner
            )));
        }
        match self.port.is_open() {
            true => Ok(()),
            false => {
                Err(Failure::Open("the port is not this program's any more: close it, and open it anew".to_owned()))
            }
        }
    }

    /// Closes the port, where it is this program's.
    pub fn close(self) {
        if self.is_ours().is_ok() {
            self.port.close();
        }
    }

    /// The next event until a time. One that the program must hand back comes again until it did.
    pub fn next(&mut self, until_ns: u64) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.unknown.front() {
                return Ok(Some(*event));
            }
            let now_ns = monotonic_ns();
            match self.port.receive(now_ns) {
                Some(event @ (Event::Sent { .. } | Event::Unknown(_))) => self.unknown.push_back(event),
                Some(event) => return Ok(Some(event)),
                // Nobody is there any more who would bring one.
                None if self.port.has_ended() => return Err(Failure::Ended("the run has ended".to_owned())),
                None if now_ns >= until_ns => return Ok(None),
                None => self.port.wait((until_ns - now_ns).min(SLEEP_NS_MAX)),
            }
        }
    }

    /// Deals with the oldest event that the program does not know; the callback to run, its context and what it is told.
    pub fn deal_with_first(&mut self) -> Option<(Option<Callback>, usize, c_int)> {
        match self.unknown.pop_front()? {
            Event::Sent { token, outcome } => {
                let (callback, context) = self.callbacks.remove(&token)?;
                Some((callback, context, outcome_of(outcome)))
            }
            Event::Unknown(unknown) => {
                self.port.unknown(unknown);
                None
            }
            _ => None,
        }
    }
}

static OPEN: Mutex<BTreeMap<usize, Arc<Mutex<Open>>>> = Mutex::new(BTreeMap::new());
/// Odd, as the address of nothing is.
static NEXT: AtomicUsize = AtomicUsize::new(0x1001);

/// Gives out a handle.
pub fn add(open: Open) -> Result<usize, Failure> {
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= OPEN_MAX {
        open.port.close();
        return Err(Failure::Open(format!("{OPEN_MAX} ports are open already: close one first")));
    }
    let handle = NEXT.fetch_add(2, Ordering::Relaxed);
    all.insert(handle, Arc::new(Mutex::new(open)));
    Ok(handle)
}

fn unknown(handle: usize) -> Failure {
    Failure::Argument(format!("{handle:#x} is no open port: it was closed, or never opened"))
}

const BUSY: &str = "another thread is in a call with this port; a port is for one thread at a time";

/// Runs something with an open port.
pub fn with<T>(handle: usize, work: impl FnOnce(&mut Open) -> Result<T, Failure>) -> Result<T, Failure> {
    let all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = all.get(&handle).cloned().ok_or_else(|| unknown(handle))?;
    drop(all);
    let mut open = open.try_lock().map_err(|_| Failure::Argument(BUSY.to_owned()))?;
    open.is_ours()?;
    work(&mut open)
}

/// Takes a port back from its handle.
pub fn remove(handle: usize) -> Result<Open, Failure> {
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = all.remove(&handle).ok_or_else(|| unknown(handle))?;
    match Arc::try_unwrap(open) {
        Ok(open) => Ok(open.into_inner().unwrap_or_else(PoisonError::into_inner)),
        Err(open) => {
            all.insert(handle, open);
            Err(Failure::Argument(BUSY.to_owned()))
        }
    }
}
