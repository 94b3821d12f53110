//! What people and agents ask of the store: a few at a time, each on a thread that may wait for it.

use super::book::Book;
use super::lines::{CaseStory, OrderAnswer, Reason};
use axum::http::StatusCode;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_http::ApiError;
use surefoot_model::{AuditEntry, Case, MachineId, one_line};
use surefoot_remedy::decide::{Request, request, waits_for_approval};
use surefoot_remedy::{Casebook, Error};
use surefoot_store::cases::{CasePage, CaseQuery, Counts, FindingName, FleetNow, KeptOrder, MachineLimits};
use tokio::sync::Semaphore;

/// Questions at one time: each has a connection to the store.
const BOOKS: usize = 2;
/// Questions that wait for one of them.
const WAITING_MAX: usize = 64;
/// A request of a person is tried so often where somebody else changes the case at the same time.
const TRIES: usize = 5;
/// How old counts may be, and the list of hosts with orders.
const COUNTS_AGE_MAX: Duration = Duration::from_secs(2);
const FLEET_AGE_MAX: Duration = Duration::from_secs(5);
const ORDERS_AGE_MAX: Duration = Duration::from_secs(1);

/// Answers.
pub(super) struct Desk {
    books: Mutex<Vec<Book>>,
    turns: Arc<Semaphore>,
    waiting: Semaphore,
    counts: Mutex<Option<(Instant, Counts)>>,
    fleet: Mutex<Option<(Instant, Arc<FleetNow>)>>,
    ordered: Mutex<Option<(Instant, HashSet<String>)>>,
}

pub(super) type Told<T> = Result<T, ApiError>;

impl Desk {
    pub(super) fn new(book: &Book) -> Desk {
        Desk {
            books: Mutex::new((0..BOOKS).map(|_| book.another()).collect()),
            turns: Arc::new(Semaphore::new(BOOKS)),
            waiting: Semaphore::new(WAITING_MAX),
            counts: Mutex::new(None),
            fleet: Mutex::new(None),
            ordered: Mutex::new(None),
        }
    }

    /// Asks the store, on a thread of its own.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        asked: impl FnOnce(&mut Book) -> Result<T, Problem> + Send + 'static,
    ) -> Told<T> {
        let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too much is asked of the store; try again soon");
        let _place = self.waiting.try_acquire().map_err(|_| busy())?;
        let turn = tokio::time::timeout(crate::server::ANSWER_TIME_MAX, Arc::clone(&self.turns).acquire_owned());
        let turn = turn.await.map_err(|_| busy())?.map_err(|_| busy())?;
        let desk = Arc::clone(self);
        let answering = tokio::task::spawn_blocking(move || {
            // As many books as turns: there is one.
            let book = surefoot_http::lock(&desk.books).pop();
            let Some(mut book) = book else { return Err(Problem::Busy) };
            let answer = asked(&mut book);
            surefoot_http::lock(&desk.books).push(book);
            // Given back with the answer, also when nobody waits for it any more.
            drop(turn);
            answer
        });
        match tokio::time::timeout(crate::server::ANSWER_TIME_MAX, answering).await {
            Ok(Ok(answer)) => answer.map_err(Problem::told),
            Ok(Err(_)) => Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer broke off; ask again")),
            Err(_) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer; try again soon")),
        }
    }

    pub(super) async fn cases(self: &Arc<Self>, query: CaseQuery) -> Told<CasePage> {
        self.ask(move |book| Ok(book.with(|store| store.page(&query))?)).await
    }

    pub(super) async fn story(self: &Arc<Self>, id: u64) -> Told<CaseStory> {
        self.ask(move |book| Ok(CaseStory::read(book, id)?)).await
    }

    pub(super) async fn trail(self: &Arc<Self>, limit: usize) -> Told<Vec<AuditEntry>> {
        self.ask(move |book| Ok(book.trail(0, limit)?)).await
    }

    /// Does what a person asks for.
    pub(super) async fn request(self: &Arc<Self>, id: u64, asked: Request, actor: String, said: Reason) -> Told<Case> {
        self.ask(move |book| meet(book, id, asked, &actor, &said)).await
    }

    pub(super) async fn pause(self: &Arc<Self>, is_paused: bool, actor: String, reason: String) -> Told<()> {
        let outcome = self.ask(move |book| Ok(pause(book, is_paused, &actor, &reason)?)).await;
        // Whoever paused is to see so at once.
        *surefoot_http::lock(&self.counts) = None;
        outcome
    }

    /// Takes a host's name away from its machine; returns the outcome in words.
    pub(super) async fn release(self: &Arc<Self>, host: String, actor: String, reason: String) -> Told<String> {
        let outcome = self.ask(move |book| Ok(release(book, &host, &actor, &reason)?)).await;
        *surefoot_http::lock(&self.counts) = None;
        outcome
    }

    /// Those alerts that say that an agent found them, and none did.
    pub(super) async fn never_found(
        self: &Arc<Self>,
        named: &[(FindingName, String)],
    ) -> Told<Vec<(FindingName, String)>> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let findings = named.iter().map(|(finding, _)| finding.clone()).collect();
        let strange: HashSet<FindingName> =
            self.ask(move |book| Ok(book.with(|store| store.never_found(findings))?)).await?.into_iter().collect();
        Ok(named.iter().filter(|(finding, _)| strange.contains(finding)).cloned().collect())
    }

    pub(super) async fn note(self: &Arc<Self>, entry: AuditEntry) -> Told<()> {
        self.ask(move |book| Ok(book.note(&entry)?)).await
    }

    /// How many of what there are, as of a moment ago.
    pub(super) async fn counts(self: &Arc<Self>) -> Told<Counts> {
        if let Some((at, counts)) = &*surefoot_http::lock(&self.counts)
            && at.elapsed() < COUNTS_AGE_MAX
        {
            return Ok(counts.clone());
        }
        let counts = self.ask(|book| Ok(book.with(|store| store.counts())?)).await?;
        *surefoot_http::lock(&self.counts) = Some((Instant::now(), counts.clone()));
        Ok(counts)
    }

    /// The hosts, as of a moment ago.
    pub(super) async fn fleet(self: &Arc<Self>) -> Told<Arc<FleetNow>> {
        if let Some((at, fleet)) = &*surefoot_http::lock(&self.fleet)
            && at.elapsed() < FLEET_AGE_MAX
        {
            return Ok(Arc::clone(fleet));
        }
        let fleet = Arc::new(self.ask(|book| Ok(book.with(|store| store.fleet())?)).await?);
        *surefoot_http::lock(&self.fleet) = Some((Instant::now(), Arc::clone(&fleet)));
        Ok(fleet)
    }

    /// The orders of a host, as of a moment ago: most hosts have none, and are not asked for each time.
    pub(super) async fn orders(
        self: &Arc<Self>,
        host: String,
        machine: MachineId,
        limit: usize,
    ) -> Told<Vec<KeptOrder>> {
        let known = surefoot_http::lock(&self.ordered)
            .as_ref()
            .filter(|(at, _)| at.elapsed() < ORDERS_AGE_MAX)
            .map(|(_, hosts)| hosts.contains(&host));
        let has_some = match known {
            Some(has_some) => has_some,
            None => {
                let hosts = self.ask(|book| Ok(book.with(|store| store.hosts_with_orders())?)).await?;
                let hosts: HashSet<String> = hosts.into_iter().collect();
                let has_some = hosts.contains(&host);
                *surefoot_http::lock(&self.ordered) = Some((Instant::now(), hosts));
                has_some
            }
        };
        if !has_some || limit == 0 {
            return Ok(Vec::new());
        }
        self.ask(move |book| Ok(book.with(|store| store.fetch_orders(&host, &machine, limit))?)).await
    }

    pub(super) async fn answer(self: &Arc<Self>, told: OrderAnswer) -> Told<bool> {
        let OrderAnswer { token, host, machine, answer, .. } = told;
        self.ask(move |book| Ok(book.with(|store| store.answer(&token, &host, &machine, &answer))?)).await
    }
}

/// Why a question has no answer.
#[derive(Debug)]
pub enum Problem {
    /// What the store says.
    Store(Error),
    /// The case is not in a state for it, in words.
    Refused(String),
    /// Too much is asked at once.
    Busy,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::Store(error)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Problem::Store(error) => error.fmt(f),
            Problem::Refused(why) => f.write_str(why),
            Problem::Busy => f.write_str("too much is asked of the store"),
        }
    }
}

impl Problem {
    fn told(self) -> ApiError {
        let status = match &self {
            Problem::Store(Error::NoCase { .. }) => StatusCode::NOT_FOUND,
            Problem::Store(Error::Conflict { .. } | Error::UnreadCase { .. }) | Problem::Refused(_) => {
                StatusCode::CONFLICT
            }
            Problem::Store(_) | Problem::Busy => StatusCode::SERVICE_UNAVAILABLE,
        };
        let more = if status == StatusCode::NOT_FOUND { "; `surefoot remedy cases --all` lists the cases" } else { "" };
        ApiError::new(status, format!("{self}{more}"))
    }
}

/// Does what a person asks of a case; tried again where somebody else changed the case meanwhile. Where an approval names its step, it is of
/// no other: the case may have gone on since it was looked at. A case that cannot be read can be cancelled, and nothing else.
///
/// # Errors
/// [`Problem`] where it cannot be done now.
pub fn meet(book: &mut Book, id: u64, asked: Request, actor: &str, said: &Reason) -> Result<Case, Problem> {
    let (reason, mut tries) = (said.reason.as_str(), 0);
    loop {
        let case = match book.case(id) {
            Err(Error::UnreadCase { .. }) if asked == Request::Cancel => {
                let entry = AuditEntry {
                    at_realtime_ns: 0,
                    case: id,
                    actor: actor.to_owned(),
                    action: "cancelled".to_owned(),
                    target: String::new(),
                    reason: one_line(reason),
                };
                return Ok(book.with(|store| store.close_unread(id, &entry))?);
            }
            case => case?,
        };
        if let (Request::Approve, Some(step), Some(waits)) = (asked, &said.step, waits_for_approval(&case))
            && step != waits
        {
            return Err(Problem::Refused(format!(
                "case {id} now needs approval of {waits}, not of {}",
                one_line(step)
            )));
        }
        let now_ns = book.now_realtime_ns()?;
        let (next, entry) =
            request(&case, asked, actor, reason, now_ns).map_err(|refused| Problem::Refused(refused.to_string()))?;
        tries += 1;
        match book.update(&next, &entry) {
            Err(Error::Conflict { .. }) if tries < TRIES => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// Pauses everything, or lets it go on.
///
/// # Errors
/// What the store says.
pub fn pause(book: &mut Book, is_paused: bool, actor: &str, reason: &str) -> surefoot_remedy::Result<()> {
    let entry = AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: actor.to_owned(),
        action: if is_paused { "paused" } else { "resumed" }.to_owned(),
        target: "everything".to_owned(),
        reason: one_line(reason),
    };
    book.pause(is_paused, &entry)
}

/// Takes a host's name away from its machine and gives it to the machine that was refused last, or else to the next one that reports. Returns
/// the outcome in words.
///
/// # Errors
/// What the store says.
pub fn release(book: &mut Book, host: &str, actor: &str, reason: &str) -> surefoot_remedy::Result<String> {
    book.with(|store| store.release(host, actor, &one_line(reason), &MachineLimits::default()))
}
