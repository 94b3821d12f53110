//! A store whose connection fails: it refuses, or does what it is asked and loses the answer; at random, or from one call on.

use super::random::Random;
use std::sync::{Arc, Mutex};
use surefoot_model::{Alert, AuditEntry, Case, PartBook, UnreadCase};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::{Casebook, Change, Error, Result, World};

#[derive(Clone)]
pub struct Flaky {
    book: MemoryBook,
    state: Arc<Mutex<State>>,
}

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// It is not done.
    Refused,
    /// It is done, and the answer is lost.
    Lost,
}

struct State {
    random: Random,
    /// Of a thousand calls so many fail.
    refused_permille: u64,
    lost_permille: u64,
    call_count: u64,
    /// From this call on nothing is answered; whether it itself is done.
    ends_at: Option<(u64, Trouble)>,
    /// What it says of each host's cases that cannot be read.
    unread: Vec<UnreadCase>,
}

impl Flaky {
    pub fn new(book: MemoryBook, seed: u64) -> Self {
        let state = State {
            random: Random::new(seed),
            refused_permille: 0,
            lost_permille: 0,
            call_count: 0,
            ends_at: None,
            unread: Vec::new(),
        };
        Flaky { book, state: Arc::new(Mutex::new(state)) }
    }

    pub fn set(&self, refused_permille: u64, lost_permille: u64) {
        let mut state = self.state.lock().unwrap();
        (state.refused_permille, state.lost_permille) = (refused_permille, lost_permille);
    }

    /// A store that answers until this call.
    pub fn ending_at(book: MemoryBook, call: u64, trouble: Trouble) -> Self {
        let flaky = Flaky::new(book, 0);
        flaky.state.lock().unwrap().ends_at = Some((call, trouble));
        flaky
    }

    /// Some of its cases cannot be read.
    pub fn damage(&self, unread: Vec<UnreadCase>) {
        self.state.lock().unwrap().unread = unread;
    }

    /// It answers again.
    pub fn answer(&self) {
        self.state.lock().unwrap().ends_at = None;
    }

    pub fn call_count(&self) -> u64 {
        self.state.lock().unwrap().call_count
    }

    fn ask<T>(&mut self, ask: impl FnOnce(&mut MemoryBook) -> Result<T>) -> Result<T> {
        let (is_refused, is_lost) = {
            let mut state = self.state.lock().unwrap();
            let (refused, lost) = (state.refused_permille, state.lost_permille);
            state.call_count += 1;
            match state.ends_at.filter(|(call, _)| *call <= state.call_count) {
                Some((call, Trouble::Lost)) if call == state.call_count => (false, true),
                Some(_) => (true, false),
                None => (state.random.permille(refused), state.random.permille(lost)),
            }
        };
        let failed = |why: &str| Err(Error::Store { store: "flaky".into(), why: why.into() });
        if is_refused {
            return failed("refused");
        }
        let said = ask(&mut self.book)?;
        if is_lost { failed("the answer is lost") } else { Ok(said) }
    }
}

impl Casebook for Flaky {
    fn take(&mut self, alerts: &[Alert]) -> Result<()> {
        self.ask(|book| book.take(alerts))
    }
    fn host_seen(&mut self, host: &str, service: &str) -> Result<()> {
        self.ask(|book| book.host_seen(host, service))
    }
    fn decide(
        &mut self,
        look_back_ns: u64,
        decision: &mut dyn FnMut(&World) -> Vec<(Change, AuditEntry)>,
    ) -> Result<Vec<Case>> {
        self.ask(|book| book.decide(look_back_ns, decision))
    }
    fn reconsider(&mut self) -> Result<()> {
        self.ask(|book| book.reconsider())
    }
    fn hold(&mut self, case: u64, fence: u64, until_realtime_ns: u64) -> Result<()> {
        self.ask(|book| book.hold(case, fence, until_realtime_ns))
    }
    fn update(&mut self, case: &Case, entry: &AuditEntry) -> Result<Case> {
        self.ask(|book| book.update(case, entry))
    }
    fn case(&mut self, id: u64) -> Result<Case> {
        self.ask(|book| book.case(id))
    }
    fn cases(&mut self, open_only: bool, limit: usize) -> Result<Vec<Case>> {
        self.ask(|book| book.cases(open_only, limit))
    }
    fn cases_of_host(&mut self, host: &str, limit: usize) -> Result<Vec<Case>> {
        self.ask(|book| book.cases_of_host(host, limit))
    }
    fn part_book(&mut self, case: &Case, limit: usize) -> Result<PartBook> {
        let book = self.ask(|book| book.part_book(case, limit))?;
        Ok(PartBook { unread: self.state.lock().unwrap().unread.clone(), ..book })
    }
    fn trail(&mut self, case: u64, limit: usize) -> Result<Vec<AuditEntry>> {
        self.ask(|book| book.trail(case, limit))
    }
    fn note(&mut self, entry: &AuditEntry) -> Result<()> {
        self.ask(|book| book.note(entry))
    }
    fn pause(&mut self, is_paused: bool, entry: &AuditEntry) -> Result<()> {
        self.ask(|book| book.pause(is_paused, entry))
    }
    fn now_realtime_ns(&mut self) -> Result<u64> {
        self.ask(|book| book.now_realtime_ns())
    }
}
