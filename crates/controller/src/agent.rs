//! The agent of one host: tells what is found of it, fetches orders and does them, each once, whatever happens to the agent meanwhile.

use super::findings::HostFindings;
use super::lines::{Accepted, HandedOrder, OrderAnswer, PROTOCOL, Protocol};
use super::orders::is_of_host;
use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_model::{Finding, Health, HostFacts, MachineId, Room, RoomHealth, Severity};
use surefoot_remedy::act::PriorAttempt;
use surefoot_remedy::{Act, Order, Outcome};

/// Orders that are remembered after their answer: the newest.
const REMEMBERED_MAX: usize = 200;
/// Orders that are done at one time.
const AT_ONCE: usize = 4;
/// The longest journal.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;

/// The way to a controller.
pub trait Exchange {
    /// Tells what is found.
    ///
    /// # Errors
    /// Why it was not taken.
    fn tell(&self, findings: &HostFindings) -> Result<Accepted, String>;

    /// Answers an order. Whether the controller took it; `false` where it knows no such order (any more) and never will take it.
    ///
    /// # Errors
    /// Why it was not taken now.
    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String>;
}

/// What is known of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    /// JSON of [`Order`], for whoever looks.
    body: String,
    /// JSON of [`Outcome`]; empty while it is being done.
    answer: String,
    /// Whether a controller has the answer.
    is_told: bool,
    /// Counts orders, so that the oldest are forgotten first.
    number: u64,
    /// The machine that it was handed to: the folder may be that of a cloned image.
    #[serde(default)]
    machine: MachineId,
}

/// The orders of the past, in a file that is replaced as a whole: what was begun before a crash is known after it.
#[derive(Debug, Default)]
struct Journal {
    path: PathBuf,
    orders: BTreeMap<String, Known>,
    /// Orders of another machine that were found in it.
    of_another_count: usize,
}

impl Journal {
    fn open(folder: &Path, machine: &MachineId) -> Result<Journal, Error> {
        let path = folder.join("orders.json");
        let failed = |why: String| Error::Unusable { what: path.display().to_string(), why };
        let text = match surefoot_foreign::hold_name(&path).and_then(|held| held.regular()?.read(JOURNAL_BYTES_MAX)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(
                read.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
                    .map_err(|error| failed(error.to_string()))?,
            ),
        };
        // An empty file is what a crash may leave of one with orders.
        let mut orders: BTreeMap<String, Known> = match text {
            None => BTreeMap::new(),
            Some(text) => {
                let damaged = |error| {
                    failed(format!("the journal of orders is damaged ({error}); look which were done, and remove it"))
                };
                serde_json::from_str(&text).map_err(damaged)?
            }
        };
        let before = orders.len();
        orders.retain(|_, known| known.machine.is(machine) != Some(false));
        let of_another_count = before - orders.len();
        Ok(Journal { path, orders, of_another_count })
    }

    /// Written and on the disk before what it tells is begun.
    fn save(&mut self) -> io::Result<()> {
        while self.orders.len() > REMEMBERED_MAX {
            let told = self.orders.iter().filter(|(_, known)| known.is_told);
            let Some(oldest) = told.min_by_key(|(_, known)| known.number).map(|(token, _)| token.clone()) else {
                break;
            };
            self.orders.remove(&oldest);
        }
        let new = self.path.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.orders)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::File::open(folder)?.sync_all()
    }
}

/// An agent.
pub struct Agent {
    host: String,
    service: String,
    machine: MachineId,
    facts: HostFacts,
    health: PathBuf,
    act: Option<Arc<dyn Act>>,
    journal: Arc<Mutex<Journal>>,
    running: Vec<(String, std::thread::JoinHandle<()>)>,
    /// Tells orders that are being done to break off.
    stop: Arc<AtomicBool>,
}

impl Agent {
    /// An agent of this host, which runs on this machine and whose watch publishes `health`. `act` does orders; without one, none are fetched. `folder` keeps what is
    /// known of orders.
    ///
    /// # Errors
    /// [`Error::Unusable`] where the folder cannot be used.
    pub fn new(
        host: &str,
        service: &str,
        machine: MachineId,
        health: PathBuf,
        act: Option<Arc<dyn Act>>,
        folder: &Path,
    ) -> Result<Agent, Error> {
        let host = super::strangers::host(host).ok_or_else(|| Error::Unusable {
            what: format!("host '{}'", surefoot_model::one_line(host)),
            why: "a host's name has letters, digits, '.', '-' and '_'".into(),
        })?;
        let mut journal = Journal::open(folder, &machine)?;
        journal
            .save()
            .map_err(|error| Error::Unusable { what: folder.display().to_string(), why: error.to_string() })?;
        Ok(Agent {
            host,
            service: service.to_owned(),
            machine,
            facts: HostFacts::default(),
            health,
            act,
            journal: Arc::new(Mutex::new(journal)),
            running: Vec::new(),
            stop: Arc::default(),
        })
    }

    /// The same, which also tells what the host runs on.
    #[must_use]
    pub fn on(self, facts: HostFacts) -> Agent {
        Agent { facts, ..self }
    }

    /// One word to the controller: what is found now and what was done; then the orders that came back are begun. `checks` is what the
    /// agent's own checks find, `None` where it runs none.
    ///
    /// # Errors
    /// Why the controller did not take it; it is told again with the next word.
    pub fn round(&mut self, exchange: &dyn Exchange, checks: Option<&[Finding]>) -> Result<Accepted, String> {
        self.word(exchange, checks, true)
    }

    /// As [`Agent::round`], while some checks have not ended: what an earlier agent told of these is not over because it is not listed.
    ///
    /// # Errors
    /// As [`Agent::round`].
    pub fn early_round(&mut self, exchange: &dyn Exchange, checks: Option<&[Finding]>) -> Result<Accepted, String> {
        self.word(exchange, checks, false)
    }

    fn word(
        &mut self,
        exchange: &dyn Exchange,
        checks: Option<&[Finding]>,
        are_checks_known: bool,
    ) -> Result<Accepted, String> {
        self.running.retain(|(_, thread)| !thread.is_finished());
        self.answer(exchange)?;
        let room = if self.act.is_some() { AT_ONCE.saturating_sub(self.running.len()) } else { 0 };
        let watched = health(&self.health).ok();
        let is_watched = watched.is_some();
        let findings_left_out = watched.as_ref().map(|health| left_out_of(health, are_checks_known));
        let lost = watched.as_ref().and_then(|health| health.lost);
        let (rooms, parts) = watched.map(|health| (health.rooms, health.parts)).unzip();
        let watched = rooms.map(of_rooms);
        let findings = match (watched, checks) {
            (None, None) => None,
            (watched, checks) => Some(joined(watched.unwrap_or_default(), checks.unwrap_or_default())),
        };
        let (host, service) = (self.host.clone(), self.service.clone());
        let protocol = Protocol::default();
        let told = HostFindings {
            protocol,
            host,
            service,
            findings,
            is_watched,
            findings_left_out,
            parts,
            machine: self.machine.clone(),
            orders_max: room,
            facts: self.facts.clone(),
            lost,
        };
        let accepted = exchange.tell(&told)?;
        if accepted.protocol != protocol {
            return Err(format!(
                "the controller speaks protocol {}, this agent {PROTOCOL}: none of its orders is done; update the older one",
                accepted.protocol.0
            ));
        }
        for order in &accepted.orders {
            self.begin(order)?;
        }
        Ok(accepted)
    }

    /// Why it is not known what the host's watch finds; `None` where it is.
    pub fn why_unwatched(&self) -> Option<String> {
        let why = health(&self.health).err()?;
        Some(format!("{}: {why}; what `surefoot watch` finds on this host is not reported", self.health.display()))
    }

    /// How many orders of another machine were left out of what is known of orders: the folder was copied from there. None of them is done
    /// or answered here.
    pub fn orders_of_another_count(&self) -> usize {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).of_another_count
    }

    /// Whether an order was done of which the controller does not know yet.
    pub fn has_answer(&self) -> bool {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.orders.values().any(|known| !known.answer.is_empty() && !known.is_told)
    }

    /// Ends: orders that are being done are told to break off, and are found by the next agent.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        for (_, thread) in self.running {
            let _ = thread.join();
        }
    }

    fn answer(&self, exchange: &dyn Exchange) -> Result<(), String> {
        let known = |journal: &Mutex<Journal>| {
            let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = journal.orders.iter().filter(|(_, known)| !known.answer.is_empty() && !known.is_told);
            waiting.map(|(token, known)| (token.clone(), known.answer.clone())).collect::<Vec<_>>()
        };
        for (token, answer) in known(&self.journal) {
            // One that nobody waits for any more must not keep what comes after it from being told: the store may be one from a backup.
            let _is_taken = exchange.answer(&OrderAnswer {
                protocol: Protocol::default(),
                host: self.host.clone(),
                machine: self.machine.clone(),
                token: token.clone(),
                answer,
            })?;
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = journal.orders.get_mut(&token) {
                known.is_told = true;
            }
            journal.save().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Begins an order, unless it was done or is being done. One that was begun by an agent that died is looked for first.
    fn begin(&mut self, handed: &HandedOrder) -> Result<(), String> {
        let Some(act) = self.act.clone() else { return Ok(()) };
        if self.running.iter().any(|(token, _)| *token == handed.token) {
            return Ok(());
        }
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on =
            |answer: &str| matches!(serde_json::from_str(answer), Ok(Outcome::GoesOn { .. } | Outcome::Waits { .. }));
        let is_in_doubt = match journal.orders.get_mut(&handed.token) {
            // The answer was lost on the way: it is told again, and nothing is done.
            Some(known) if !(known.answer.is_empty() || goes_on(&known.answer) && known.is_told) => {
                known.is_told = false;
                return Ok(());
            }
            Some(known) => known.answer.is_empty(),
            None => false,
        };
        let number = journal.orders.values().map(|known| known.number).max().unwrap_or(0) + 1;
        let known = Known {
            body: handed.body.clone(),
            answer: String::new(),
            is_told: false,
            number,
            machine: self.machine.clone(),
        };
        journal.orders.insert(handed.token.clone(), known);
        journal.save().map_err(|error| format!("{}: {error}", journal.path.display()))?;
        drop(journal);
        let (token, body, host) = (handed.token.clone(), handed.body.clone(), self.host.clone());
        let (journal, stop) = (Arc::clone(&self.journal), Arc::clone(&self.stop));
        let doing = move || {
            let answer = done(&*act, &body, &host, is_in_doubt, &stop);
            if stop.load(Ordering::Acquire) {
                // Broken off: the next agent finds what became of it.
                return;
            }
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = journal.orders.get_mut(&token) {
                known.answer = serde_json::to_string(&answer).unwrap_or_default();
            }
            // What cannot be written now is told all the same, and looked for after a crash.
            let _ = journal.save();
        };
        let thread = std::thread::Builder::new().name("surefoot-order".into()).spawn(doing);
        self.running.push((handed.token.clone(), thread.map_err(|error| error.to_string())?));
        Ok(())
    }
}

fn done(act: &dyn Act, body: &str, host: &str, is_in_doubt: bool, stop: &AtomicBool) -> Outcome {
    let failed = |detail: String, memo: String| Outcome::Failed { detail, memo, is_passing: false };
    let order = match serde_json::from_str::<Order>(body) {
        Ok(order) if !is_of_host(&order.step) => {
            return failed(format!("an agent does no step '{}'", order.step), order.memo);
        }
        // Whatever it says: on this host.
        Ok(order) => Order { host: host.to_owned(), is_begun_again: is_in_doubt, ..order },
        Err(error) => return failed(format!("this agent cannot read the order: {error}"), String::new()),
    };
    if is_in_doubt {
        match act.find(&order) {
            PriorAttempt::Effect { observed, memo } => return Outcome::done(observed, memo),
            PriorAttempt::Unknown { why } => {
                return failed(format!("the agent was ended while it did it: {why}"), order.memo);
            }
            PriorAttempt::MayRepeat => {}
        }
    }
    act.run(&order, stop)
}

/// What a watch found, and what the agent's own checks did: of a check that both run, the agent's word counts.
fn joined(watched: Vec<Finding>, checks: &[Finding]) -> Vec<Finding> {
    let is_ours = |finding: &Finding| checks.iter().any(|own| own.key == finding.key && own.severity > Severity::Ok);
    watched.into_iter().filter(|finding| !is_ours(finding)).chain(checks.iter().cloned()).collect()
}

/// What the host's watch says, or why that is not known.
fn health(path: &Path) -> Result<Health, String> {
    let bytes = surefoot_foreign::hold(path).and_then(|held| held.regular()?.read(Health::FILE_BYTES_MAX));
    let bytes = bytes.map_err(|error| surefoot_foreign::said(&error))?;
    let health: Health = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_current = health.is_current(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    if is_current { Ok(health) } else { Err("its watch no longer writes it".to_owned()) }
}

/// For each room that the watch covers, the findings that its file has no room for. A watch that has just begun has no data yet: what
/// lost time and its own sources found before is not over because they have found nothing so far; nor is what checks found that have not
/// ended.
fn left_out_of(health: &Health, are_checks_known: bool) -> BTreeMap<Room, u64> {
    let has_data = |room: &Room| match room {
        Room::Stall | Room::Watch => health.data_age_ns.is_some(),
        Room::Remedy => are_checks_known,
        _ => true,
    };
    let rooms = health.rooms.iter().filter(|(room, _)| has_data(room));
    rooms.map(|(room, health)| (*room, health.findings_left_out)).collect()
}

fn of_rooms(rooms: BTreeMap<Room, RoomHealth>) -> Vec<Finding> {
    rooms.into_values().flat_map(|room| room.findings).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_model::Headline;

    #[test]
    fn a_watch_that_has_just_begun_says_of_lost_time_neither_that_it_is_over_nor_that_it_is_not() {
        let rooms = [Room::Stall, Room::Watch, Room::Memory, Room::Remedy].map(|room| (room, RoomHealth::default()));
        let begun = Health {
            version: Health::VERSION,
            updated_realtime_ns: 1,
            host: "n1".into(),
            headline: Headline::new(Severity::Ok, ""),
            data_age_ns: None,
            lost: None,
            rooms: rooms.into(),
            parts: Vec::new(),
            parts_left_out: 0,
        };
        let whole = |health: &Health, are_known| left_out_of(health, are_known).into_keys().collect::<Vec<_>>();
        assert_eq!(whole(&begun, true), [Room::Memory, Room::Remedy]);
        assert_eq!(whole(&begun, false), [Room::Memory], "a check that has not ended ends nothing");
        assert_eq!(whole(&Health { data_age_ns: Some(7), ..begun }, true).len(), 4);
    }

    #[test]
    fn an_empty_journal_of_orders_is_damaged_and_not_one_without_orders() {
        let home = tempfile::tempdir().unwrap();
        let open = || Journal::open(home.path(), &MachineId::default());
        assert!(open().unwrap().orders.is_empty(), "it was never written");
        for text in ["", "{\"token\"", "null"] {
            std::fs::write(home.path().join("orders.json"), text).unwrap();
            let why = open().unwrap_err().to_string();
            assert!(why.contains("orders.json") && why.contains("the journal of orders is damaged"), "'{text}': {why}");
        }
        std::fs::write(home.path().join("orders.json"), "{}").unwrap();
        assert!(open().unwrap().orders.is_empty());
    }
}
