//! Surefoot's ports of programmable interfaces for programs in C and C++; `surefoot_nic.h` describes them.
//!
//! # Invariants
//! - A handle is a number that was given out once: one that was closed, or never was one, is an error and no crash.
//! - No panic crosses into C, and every failure leaves a sentence for `surefoot_nic_error`.
//! - A callback runs with no lock held, so that it may call everything but `surefoot_nic_unknown` of the same event.
//!
//! ```
//! use std::ffi::CStr;
//! // SAFETY: a handle that was never given out, and a text that is read before the next call.
//! unsafe {
//!     assert_eq!(surefoot_nic_c::surefoot_nic_close(std::ptr::null_mut()), -1);
//!     let why = CStr::from_ptr(surefoot_nic_c::surefoot_nic_error());
//!     assert!(why.to_str().unwrap().contains("no open port"));
//! }
//! ```
#![allow(clippy::missing_safety_doc, reason = "the header says what each function asks of its caller")]

mod failure;
mod handles;

use failure::{Failure, border};
use handles::{Callback, Open, with};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_nic::host::layout::{PAGE_BYTES, RECEIVE_TOKENS, SEND_TOKENS};
use surefoot_nic::host::port::{Event, Message, PortConfig, SendFailure, Service};
use surefoot_nic::host::streams::Peer;
use surefoot_nic::live::directory::RunDirectory;
use surefoot_nic::live::ports;

/// An event as C sees it.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SurefootNicEvent {
    kind: u32,
    token: u32,
    address: u32,
    length: u32,
    from_node: u32,
    from_port: u32,
    priority: u32,
    number: u32,
}

/// A run has two interfaces.
const NODES_OF_RUN: u32 = 2;

const RECEIVED: u32 = 1;
const DIRECTED: u32 = 2;
const ALARM: u32 = 3;
const BUFFER_REFUSED: u32 = 4;
const MEMORY_SUSPECT: u32 = 5;
const OTHER: u32 = 6;

/// A handle. It points nowhere.
pub type Handle = *mut c_void;

/// Opens a port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_open(
    run: *const c_char,
    node: u32,
    port: u32,
    pages: u32,
    opened: *mut Handle,
) -> c_int {
    border(|| {
        if run.is_null() || opened.is_null() {
            return Err(Failure::Argument("the directory or the place for the handle is NULL".to_owned()));
        }
        // SAFETY: not NULL, and the caller says that it is a text.
        let run = unsafe { CStr::from_ptr(run) };
        let run = run.to_str().map_err(|_| Failure::Argument("the directory is not UTF-8".to_owned()))?;
        let failed = |error: surefoot_nic::live::Error| Failure::Open(error.to_string());
        let memory = RunDirectory::open(Path::new(run)).map_err(failed)?.open_memory(node).map_err(failed)?;
        let port = ports::open(&memory, port as usize, PortConfig::tolerant(pages)).map_err(failed)?;
        let handle = handles::add(Open::new(port))?;
        // SAFETY: not NULL, and the caller says that a handle fits there.
        unsafe { opened.write(handle as Handle) };
        Ok(0)
    })
}

/// Closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_close(port: Handle) -> c_int {
    border(|| {
        handles::remove(port as usize)?.close();
        Ok(0)
    })
}

/// Send tokens that are left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_send_tokens(port: Handle) -> c_int {
    border(|| with(port as usize, |open| Ok((SEND_TOKENS - open.port.outstanding_count()) as c_int)))
}

/// Receive tokens that are left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_receive_tokens(port: Handle) -> c_int {
    border(|| with(port as usize, |open| Ok((RECEIVE_TOKENS - open.port.provided_count()) as c_int)))
}

/// Copies into the port's memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_write(port: Handle, address: u32, bytes: *const c_void, length: u32) -> c_int {
    border(|| {
        if bytes.is_null() && length > 0 {
            return Err(Failure::Argument("the bytes are NULL".to_owned()));
        }
        let bytes: &[u8] = match length {
            0 => &[],
            // SAFETY: not NULL, and the caller says that so many bytes are there.
            _ => unsafe { std::slice::from_raw_parts(bytes.cast(), length as usize) },
        };
        with(port as usize, |open| inside(open.port.write(address, bytes), address, length))
    })
}

/// Copies out of the port's memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_read(port: Handle, address: u32, bytes: *mut c_void, length: u32) -> c_int {
    border(|| {
        if bytes.is_null() && length > 0 {
            return Err(Failure::Argument("the place for the bytes is NULL".to_owned()));
        }
        let found = with(port as usize, |open| {
            // No more than the port has is ever asked of the allocator, which ends the program where it has no more.
            let registered = open.port.pages().len() as u64 * u64::from(PAGE_BYTES);
            inside(u64::from(address) + u64::from(length) <= registered, address, length)?;
            let mut found = vec![0_u8; length as usize];
            inside(open.port.read(address, &mut found), address, length)?;
            Ok(found)
        })?;
        // SAFETY: not NULL unless nothing is copied, and the caller says that there is room for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), bytes.cast(), found.len()) };
        Ok(0)
    })
}

fn inside(done: bool, address: u32, length: u32) -> Result<c_int, Failure> {
    if done {
        Ok(0)
    } else {
        Err(Failure::Argument(format!("{length} bytes at {address:#x} are not inside of the port's memory")))
    }
}

/// Provides a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_provide(
    port: Handle,
    token: u32,
    address: u32,
    size_class: u32,
    priority: u32,
) -> c_int {
    border(|| {
        let (size_class, priority) = (small(size_class, "size class")?, small(priority, "priority")?);
        with(port as usize, |open| Ok(open.port.provide(token, address, size_class, priority).map(|()| 0)?))
    })
}

fn small(number: u32, what: &str) -> Result<u8, Failure> {
    u8::try_from(number).map_err(|_| Failure::Argument(format!("{number} is no {what}")))
}

/// Sends into a buffer that the receiver provided.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_send(
    port: Handle,
    address: u32,
    length: u32,
    size_class: u32,
    to_node: u32,
    to_port: u32,
    priority: u32,
    callback: Option<Callback>,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let service = Service::Normal { size_class: small(size_class, "size class")? };
        send(port, (address, length), service, (to_node, to_port, priority), callback, context)
    })
}

/// Sends into the memory of the other port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_send_directed(
    port: Handle,
    address: u32,
    length: u32,
    remote: u32,
    to_node: u32,
    to_port: u32,
    priority: u32,
    callback: Option<Callback>,
    context: *mut c_void,
) -> c_int {
    border(|| {
        send(port, (address, length), Service::Directed { remote }, (to_node, to_port, priority), callback, context)
    })
}

/// Sends at most once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_send_datagram(
    port: Handle,
    address: u32,
    length: u32,
    size_class: u32,
    to_node: u32,
    to_port: u32,
    priority: u32,
    callback: Option<Callback>,
    context: *mut c_void,
) -> c_int {
    border(|| {
        let service = Service::Datagram { size_class: small(size_class, "size class")? };
        send(port, (address, length), service, (to_node, to_port, priority), callback, context)
    })
}

fn send(
    port: Handle,
    (address, length): (u32, u32),
    service: Service,
    (node, to_port, priority): (u32, u32, u32),
    callback: Option<Callback>,
    context: *mut c_void,
) -> Result<c_int, Failure> {
    if node >= NODES_OF_RUN {
        return Err(Failure::Argument(format!("there is no node {node}: a run has the nodes 0 and 1")));
    }
    let to = Peer { node: small(node, "node")?, port: small(to_port, "port")?, priority: small(priority, "priority")? };
    with(port as usize, |open| {
        let token = open.next_token;
        open.port.send(Message { token, address, length, to, service })?;
        open.next_token = token.wrapping_add(1);
        open.callbacks.insert(token, (callback, context as usize));
        Ok(0)
    })
}

/// Sets the alarm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_alarm(port: Handle, token: u32, after_us: u32) -> c_int {
    border(|| {
        with(port as usize, |open| {
            // However long ago the program received last.
            open.port.time_is(monotonic_ns());
            open.port.alarm(token, after_us);
            Ok(0)
        })
    })
}

/// The next event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_receive(port: Handle, event: *mut SurefootNicEvent, wait_ns: u64) -> c_int {
    border(|| {
        if event.is_null() {
            return Err(Failure::Argument("the place for the event is NULL".to_owned()));
        }
        let until_ns = monotonic_ns().saturating_add(wait_ns);
        let found = with(port as usize, |open| open.next(until_ns))?;
        let (found, is_some) = (found.map(|found| of_event(&found)), found.is_some());
        // SAFETY: not NULL, and the caller says that an event fits there.
        unsafe { event.write(found.unwrap_or_default()) };
        Ok(c_int::from(is_some))
    })
}

fn of_event(event: &Event) -> SurefootNicEvent {
    let none = SurefootNicEvent::default();
    let message = |kind, token, address, length, from: Peer, number| SurefootNicEvent {
        kind,
        token,
        address,
        length,
        from_node: from.node.into(),
        from_port: from.port.into(),
        priority: from.priority.into(),
        number,
    };
    match *event {
        Event::Received { token, address, length, from, number } => {
            message(RECEIVED, token, address, length, from, number)
        }
        Event::Directed { address, length, from, number } => message(DIRECTED, 0, address, length, from, number),
        Event::Alarm { token } => SurefootNicEvent { kind: ALARM, token, ..none },
        Event::BufferRefused { token } => SurefootNicEvent { kind: BUFFER_REFUSED, token, ..none },
        Event::MemorySuspect => SurefootNicEvent { kind: MEMORY_SUSPECT, ..none },
        Event::Sent { .. } | Event::Unknown(_) => SurefootNicEvent { kind: OTHER, ..none },
    }
}

/// Deals with what the program does not know.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn surefoot_nic_unknown(port: Handle, event: *const SurefootNicEvent) -> c_int {
    border(|| {
        // SAFETY: the caller says that it is NULL or an event.
        let Some(event) = (unsafe { event.as_ref() }) else {
            return Err(Failure::Argument("the event is NULL".to_owned()));
        };
        if event.kind != OTHER {
            return Ok(0);
        }
        let ended = with(port as usize, |open| Ok(open.deal_with_first()))?;
        if let Some((Some(callback), context, outcome)) = ended {
            // SAFETY: the program gave both with the send, and no lock is held.
            unsafe { callback(port, context as *mut c_void, outcome) };
        }
        Ok(0)
    })
}

/// The text of the last failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn surefoot_nic_error() -> *const c_char {
    failure::last_text()
}

/// What a callback is told.
fn outcome_of(outcome: Result<(), SendFailure>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(SendFailure::Closed) => 1,
        Err(SendFailure::Refused) => 2,
        Err(SendFailure::BadAddress) => 3,
        Err(SendFailure::TimedOut) => 4,
        Err(SendFailure::GivenUp) => 5,
        Err(SendFailure::Changed) => 6,
    }
}
