//! The cases as a client reaches them: at a server, or in a store that is opened here.

use crate::desk::{Problem, meet, pause, release};
use crate::{Book, CaseLine, CaseList, CaseStory, HostList, HostOrder, HostQuery, Reason, Trail};
use surefoot_hostfs::privilege::effective_user;
use surefoot_model::AuditEntry;
use surefoot_outside::own::{self, Server};
use surefoot_remedy::Casebook;
use surefoot_remedy::decide::Request;
use surefoot_store::cases::{Before, CaseQuery};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Where the cases are.
pub enum CaseAccess {
    /// At a server.
    Server(Server),
    /// In a store.
    Store(Box<Book>),
}

/// Why a request was not met.
#[derive(Debug, thiserror::Error)]
pub enum Unmet {
    /// The server refused, or did not answer.
    #[error(transparent)]
    Server(#[from] own::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] surefoot_remedy::Error),
    /// The case is not in a state for it.
    #[error("{0}")]
    Refused(String),
}

impl CaseAccess {
    /// A page of cases.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn cases(&mut self, query: &CaseQuery) -> Result<CaseList, Unmet> {
        match self {
            CaseAccess::Server(server) => {
                let state = if query.open_only { "open" } else { "all" };
                let mut path = format!("/api/v1/cases?state={state}&limit={}", query.limit);
                if let Some(host) = &query.host {
                    path += &format!("&host={host}");
                }
                match query.before {
                    None => {}
                    Some(Before::Case(id)) => path += &format!("&before={id}"),
                    Some(Before::Time(at_ns)) => path += &format!("&before={}", rfc3339(at_ns)),
                }
                Ok(server.get(&path)?)
            }
            CaseAccess::Store(book) => {
                let page = book.with(|store| store.page(query))?;
                Ok(CaseList::of(&page, query.open_only, &book.with(|store| store.counts())?))
            }
        }
    }

    /// The hosts by rooms.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn hosts(&mut self, query: &HostQuery) -> Result<HostList, Unmet> {
        match self {
            CaseAccess::Server(server) => {
                let mut path = format!("/api/v1/hosts?limit={}", query.limit);
                let room = query.room.map(|room| room.as_str().to_owned());
                let order = (query.order != HostOrder::Worst).then(|| query.order.to_string());
                let given =
                    [("service", &query.service), ("room", &room), ("search", &query.search), ("order", &order)];
                for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
                    path += &format!("&{name}={}", encoded(value));
                }
                Ok(server.get(&path)?)
            }
            CaseAccess::Store(book) => Ok(HostList::of(&book.with(|store| store.fleet())?, query)),
        }
    }

    /// One case with its audit trail.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn story(&mut self, id: u64) -> Result<CaseStory, Unmet> {
        match self {
            CaseAccess::Server(server) => Ok(server.get(&format!("/api/v1/cases/{id}"))?),
            CaseAccess::Store(book) => Ok(CaseStory::read(book.as_mut(), id)?),
        }
    }

    /// The newest lines of the audit trail, oldest first.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn trail(&mut self, limit: usize) -> Result<Vec<AuditEntry>, Unmet> {
        match self {
            CaseAccess::Server(server) => {
                let mut trail = server.get::<Trail>("/api/v1/trail")?.trail;
                trail.drain(..trail.len().saturating_sub(limit));
                Ok(trail)
            }
            CaseAccess::Store(book) => Ok(book.trail(0, limit)?),
        }
    }

    /// Requests something for a case; returns the case afterwards.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn request(&mut self, id: u64, asked: Request, said: &Reason) -> Result<CaseLine, Unmet> {
        match self {
            CaseAccess::Server(server) => Ok(server.post(&format!("/api/v1/cases/{id}/{}", word(asked)), said)?),
            CaseAccess::Store(book) => {
                meet(book, id, asked, &actor(), said).map(|case| CaseLine::of(&case)).map_err(|problem| match problem {
                    Problem::Store(error) => Unmet::Store(error),
                    refused => Unmet::Refused(refused.to_string()),
                })
            }
        }
    }

    /// Takes a host name away from its machine; returns the outcome in words.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn release(&mut self, host: &str, reason: &str) -> Result<String, Unmet> {
        #[derive(serde::Deserialize)]
        struct Released {
            outcome: String,
        }
        match self {
            CaseAccess::Server(server) => {
                let path = format!("/api/v1/hosts/{host}/release");
                Ok(server.post::<Released>(&path, &said(reason))?.outcome)
            }
            CaseAccess::Store(book) => Ok(release(book, host, &actor(), reason)?),
        }
    }

    /// Pauses all cases, or resumes them.
    ///
    /// # Errors
    /// When the server or the store does not answer, or refuses.
    pub fn pause(&mut self, is_paused: bool, reason: &str) -> Result<(), Unmet> {
        match self {
            CaseAccess::Server(server) => {
                let path = if is_paused { "/api/v1/pause" } else { "/api/v1/resume" };
                Ok(server.post::<serde_json::Value>(path, &said(reason)).map(drop)?)
            }
            CaseAccess::Store(book) => Ok(pause(book, is_paused, &actor(), reason)?),
        }
    }
}

/// As the value of a parameter in an address.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn rfc3339(at_ns: u64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ns)).ok();
    at.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default()
}

fn said(reason: &str) -> Reason {
    Reason { reason: reason.to_owned(), step: None }
}

/// Whoever can write to the store may do everything in it; the trail names the user.
fn actor() -> String {
    format!("user {}", effective_user())
}

/// The word for a request in an address.
pub fn word(asked: Request) -> &'static str {
    match asked {
        Request::Approve => "approve",
        Request::Pause => "pause",
        Request::Resume => "resume",
        Request::Cancel => "cancel",
        Request::Replaced => "replaced",
        Request::TestedGood => "tested-good",
    }
}
