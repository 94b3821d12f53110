//! How a rank leaves: closing a session is no call of all ranks, so those that wait for a rank that closed must be told.
//!
//! Each rank sends a farewell to its neighbours in both trees when its session ends, and waits for nobody. It has the length of any
//! other message of an agreement, so it is what a neighbour receives in the next one, which passes it on to all. When all
//! ranks close, the farewells lie there unread until a later session of the same group comes by: it takes what is of a
//! session that this rank has closed for what it is, and receives again.

use super::message::{BYTES, Failure, FailureKind, Message};
use super::{Ranks, Stamp};
use crate::Error;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most sessions that a process remembers having closed.
const CLOSED_MAX: usize = 4096;

/// A session and one rank of it: ranks may be threads of one process.
type Of = (u64, u32);

/// The sessions of this process.
struct Sessions {
    /// Those that are open, each with the farewells that came in another session of the same group.
    open: BTreeMap<Of, Vec<(u32, [u8; BYTES])>>,
    /// Those that were closed, the last ones.
    closed: VecDeque<Of>,
}

static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions { open: BTreeMap::new(), closed: VecDeque::new() });

fn sessions() -> MutexGuard<'static, Sessions> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a message is a farewell of this session.
pub(super) fn is_of(bytes: &[u8; BYTES], session: u64) -> bool {
    Message::from_bytes(bytes).is_ok_and(|message| message.stamp.is_farewell() && message.stamp.session == session)
}

impl Ranks {
    /// From here on the ranks are in the session of this number.
    pub(super) fn enter_session(&self, session: u64) {
        self.stamp.set(Stamp { session, ..self.stamp.get() });
        sessions().open.insert((session, self.rank()), Vec::new());
    }

    /// The next message of this session from a rank, or what it says instead.
    pub(super) fn receive(&self, from: u32, stamp: Stamp) -> Result<[u8; BYTES], Error> {
        if let Some(came) = sessions().open.get_mut(&(stamp.session, self.rank()))
            && let Some(at) = came.iter().position(|(of, _)| *of == from)
        {
            return Ok(came.remove(at).1);
        }
        loop {
            let mut bytes = [0; BYTES];
            self.group.exchange(from, &[], from, &mut bytes).map_err(|error| Error::Group {
                why: format!("no message came from rank {from}: {}", error.group_reason()),
            })?;
            let Ok(message) = Message::from_bytes(&bytes) else { return Ok(bytes) };
            let of = (message.stamp.session, self.rank());
            if of.0 == stamp.session {
                return Ok(bytes);
            }
            let mut sessions = sessions();
            if sessions.closed.contains(&of) {
                continue;
            }
            match sessions.open.get_mut(&of) {
                Some(came) if message.stamp.is_farewell() => came.push((from, bytes)),
                _ => return Ok(bytes),
            }
        }
    }

    /// Has a farewell that came where none was looked for be the next message of its rank.
    pub(super) fn keep_farewell(&self, from: u32, bytes: [u8; BYTES]) {
        if let Some(came) = sessions().open.get_mut(&(self.stamp.get().session, self.rank())) {
            came.push((from, bytes));
        }
    }

    /// Tells the neighbours that this rank takes part in nothing any more; those that cannot be reached are not waited for.
    pub(super) fn say_farewell(&self, why: &str) {
        let stamp = self.stamp.get().farewell();
        if self.size() == 1 || stamp.session == 0 || self.process != std::process::id() {
            return;
        }
        let failure = Failure { rank: self.rank(), kind: FailureKind::Closed, why: why.to_owned() };
        let own = Message { rank: self.rank(), size: self.size(), stamp, failure: Some(failure), ..Message::default() };
        let bytes = own.to_bytes();
        // In either tree: the first agreement of a call goes by another one than the rest.
        let neighbours: BTreeSet<u32> = self.flat.neighbours().chain(self.tree.neighbours()).collect();
        for other in neighbours {
            // Who cannot be reached finds out by that.
            let _ = self.group.post(other, &bytes);
        }
    }

    /// Leaves the session, unless an error has ended it before.
    fn leave(&self) {
        let of = (self.stamp.get().session, self.rank());
        if of.0 == 0 {
            return;
        }
        if self.broken.borrow().is_none() {
            let why = self.parting.borrow().as_ref().map_or_else(String::new, |why| format!(" after an error: {why}"));
            self.say_farewell(&format!("rank {} closed its session{why}", self.rank()));
        }
        let mut sessions = sessions();
        sessions.open.remove(&of);
        if sessions.closed.len() == CLOSED_MAX {
            sessions.closed.pop_front();
        }
        sessions.closed.push_back(of);
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.leave();
    }
}
