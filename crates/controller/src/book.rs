//! The casebook of the remedies in the store.

use super::silences::Silences;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use surefoot_http::lock;
use surefoot_model::{Alert, AuditEntry, Case, PartBook};
use surefoot_remedy::{Casebook, Change, Error, Result, World};
use surefoot_store::cases::{Address, CaseStore, Opening};

/// A casebook in a store of its own connection. A store that cannot be opened now is opened when it can be.
#[derive(Debug)]
pub struct Book {
    address: Address,
    password: Option<Arc<str>>,
    opening: Opening,
    store: Option<CaseStore>,
    /// What is silenced is not decided on.
    silences: Option<Arc<Silences>>,
    health: Arc<Health>,
}

/// How the store does, seen by all books of it.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Calls that failed.
    pub(super) failed: AtomicU64,
    /// Alerts that the last decisions could not read.
    pub(super) alerts_unread: AtomicU64,
    /// Why the last one failed; `None` once something was written after it.
    refusing: Mutex<Option<String>>,
}

impl Health {
    /// Whether no call failed since something was written last.
    pub(super) fn is_good(&self) -> bool {
        lock(&self.refusing).is_none()
    }
}

impl Book {
    /// A book in this store, which is opened when it is first needed, and made where there is none.
    pub fn new(address: Address, password: Option<Arc<str>>) -> Book {
        Book { address, password, opening: Opening::create(), store: None, silences: None, health: Arc::default() }
    }

    /// A book in a store that is there; none is made.
    pub fn existing(address: Address, password: Option<Arc<str>>) -> Book {
        Book { opening: Opening::existing(), ..Book::new(address, password) }
    }

    /// A book in a store that is there, which is only read, and stays as it is.
    pub fn to_read(address: Address, password: Option<Arc<str>>) -> Book {
        Book { opening: Opening::to_read(), ..Book::new(address, password) }
    }

    /// The same store, opened now.
    ///
    /// # Errors
    /// Those of [`CaseStore::open`], in the words of the remedies.
    pub fn open(address: Address, password: Option<Arc<str>>) -> Result<Book> {
        let mut book = Book::new(address, password);
        book.with(|_| Ok(()))?;
        Ok(book)
    }

    /// One more book of the same store, with a connection of its own.
    pub fn another(&self) -> Book {
        let (opening, health) = (self.opening.clone(), Arc::clone(&self.health));
        Book { opening, health, ..Book::new(self.address.clone(), self.password.clone()) }
    }

    /// The same, for an engine that leaves alone what is silenced.
    pub(super) fn heeding(self, silences: Option<Arc<Silences>>) -> Book {
        Book { silences, ..self }
    }

    /// Does something with the store.
    ///
    /// # Errors
    /// What it says, in the words of the remedies.
    pub fn with<T>(&mut self, does: impl FnOnce(&mut CaseStore) -> surefoot_store::Result<T>) -> Result<T> {
        let done = self.try_with(does).map_err(|error| told(&self.address, error));
        if let Err(error @ (Error::Store { .. } | Error::NoStore { .. })) = &done {
            self.health.failed.fetch_add(1, Ordering::Relaxed);
            *lock(&self.health.refusing) = Some(error.to_string());
        }
        done
    }

    fn try_with<T>(
        &mut self,
        does: impl FnOnce(&mut CaseStore) -> surefoot_store::Result<T>,
    ) -> surefoot_store::Result<T> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(CaseStore::open_as(&self.address, self.password.as_deref(), &self.opening)?),
        };
        does(store)
    }

    /// Why the store took nothing when it was asked last by any book of it, or takes nothing now; `None` where all is well.
    pub(super) fn trouble(&mut self) -> Option<String> {
        // A full disk lets a lock be taken.
        let before = lock(&self.health.refusing).clone();
        let tried = if before.is_some() { CaseStore::writes } else { CaseStore::ready };
        match self.with(tried) {
            Ok(()) => {
                *lock(&self.health.refusing) = None;
                before
            }
            Err(error) => Some(error.to_string()),
        }
    }

    pub(super) fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }
}

fn told(address: &Address, error: surefoot_store::Error) -> Error {
    let store = address.to_string();
    match error {
        surefoot_store::Error::CaseConflict { case, why } => Error::Conflict { case, why },
        surefoot_store::Error::NoCase { case } => Error::NoCase { case },
        surefoot_store::Error::CaseUnread { case, says } => Error::UnreadCase { case, says },
        surefoot_store::Error::NoStore { store, why } => Error::NoStore { store, why },
        surefoot_store::Error::Cases { doing, why, .. } => Error::Store { store, why: format!("{doing}: {why}") },
        other => Error::Store { why: without_its_name(&other.to_string(), &store), store },
    }
}

/// What an error says of a store whose name is told already.
fn without_its_name(says: &str, store: &str) -> String {
    let path = store.strip_prefix("sqlite:").unwrap_or(store);
    [store, path].iter().find_map(|name| says.strip_prefix(name)?.strip_prefix(": ")).unwrap_or(says).to_owned()
}

impl Casebook for Book {
    fn take(&mut self, alerts: &[Alert]) -> Result<()> {
        self.with(|store| store.take(alerts).map(drop))
    }

    fn host_seen(&mut self, host: &str, service: &str) -> Result<()> {
        self.with(|store| store.hosts_seen(&[(host.to_owned(), service.to_owned())]))
    }

    fn decide(
        &mut self,
        look_back_ns: u64,
        decision: &mut dyn FnMut(&World) -> Vec<(Change, AuditEntry)>,
    ) -> Result<Vec<Case>> {
        let health = Arc::clone(&self.health);
        let count = |store: &CaseStore| health.alerts_unread.store(store.alerts_unread(), Ordering::Relaxed);
        let Some(silences) = self.silences.clone() else {
            return self.with(|store| store.decide(look_back_ns, decision).inspect(|_| count(store)));
        };
        let mut lines = Vec::new();
        let changed = self.with(|store| {
            store
                .decide(look_back_ns, &mut |world| match silences.left(&world.alerts, world.now_realtime_ns) {
                    None => decision(world),
                    Some((alerts, newly)) => {
                        lines = newly;
                        decision(&World { alerts, ..world.clone() })
                    }
                })
                .inspect(|_| count(store))
        })?;
        // What cannot be noted now is left out: the silence holds all the same.
        lines.iter().for_each(|line| _ = self.note(line));
        Ok(changed)
    }

    fn reconsider(&mut self) -> Result<()> {
        self.with(CaseStore::reconsider)
    }

    fn hold(&mut self, case: u64, fence: u64, until_realtime_ns: u64) -> Result<()> {
        self.with(|store| store.hold(case, fence, until_realtime_ns))
    }

    fn update(&mut self, case: &Case, entry: &AuditEntry) -> Result<Case> {
        self.with(|store| store.update(case, entry))
    }

    fn case(&mut self, id: u64) -> Result<Case> {
        self.with(|store| store.case(id))
    }

    fn cases(&mut self, open_only: bool, limit: usize) -> Result<Vec<Case>> {
        self.with(|store| store.cases(open_only, limit))
    }

    fn cases_of_host(&mut self, host: &str, limit: usize) -> Result<Vec<Case>> {
        self.with(|store| store.cases_of_host(host, limit))
    }

    fn part_book(&mut self, case: &Case, limit: usize) -> Result<PartBook> {
        self.with(|store| store.part_book(case, limit))
    }

    fn trail(&mut self, case: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        self.with(|store| store.trail(case, limit))
    }

    fn note(&mut self, entry: &AuditEntry) -> Result<()> {
        self.with(|store| store.note(entry))
    }

    fn pause(&mut self, is_paused: bool, entry: &AuditEntry) -> Result<()> {
        self.with(|store| store.pause(is_paused, entry))
    }

    fn now_realtime_ns(&mut self) -> Result<u64> {
        self.with(CaseStore::now_realtime_ns)
    }
}
