//! Alerts, cases and the audit trail of the remedies, in SQLite or PostgreSQL.
//!
//! # What is kept
//!
//! | table | what | how long |
//! |---|---|---|
//! | `remedy_meta` | the version of the tables, whether everything is paused | |
//! | `remedy_alert` | the newest word of each alert, and whether it was decided on | [`Limits::alerts_kept_s`] after it is over |
//! | `remedy_case` | each case as JSON, and beside it what is asked for | open ones for ever, of the others the newest [`Limits::closed_max`] |
//! | `remedy_host` | the hosts that tell of themselves, and their service | [`Limits::hosts_kept_s`] after the last word |
//! | `remedy_view` | what the agent of a host sees of it, as JSON | as `remedy_host` |
//! | `remedy_machine` | which machine a host name belongs to, and the last one that was refused | as `remedy_host` |
//! | `remedy_audit` | who did what, when and why; lines are only added | [`Limits::audit_kept_s`], the database itself keeps them from being changed |
//! | `remedy_part` | which part, by its serial number, was where from when until when | [`Limits::audit_kept_s`] after it went |
//! | `remedy_order` | what the agent of a host is to do, and what it answered | [`Limits::orders_kept_s`] |
//!
//! # Several writers
//!
//! Decisions are made under one lock of the database, so that limits that count cases hold whoever decides. Every change of a case
//! names the revision that it rests on, and is refused where the store has another.
//!
//! What an open case says of its alert is read from the alert, and until when its lease holds from a column of its own: neither raises
//! its revision, so that a repeated alert or a lease that is held longer disturbs nobody.
//!
//! ```
//! use surefoot_store::cases::CaseStore;
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("cases.sqlite");
//! let mut store = CaseStore::open(&format!("sqlite:{}", path.display()).parse()?, None)?;
//! assert!(store.cases(true, 10)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod alerts;
mod decide;
mod fleet;
mod machines;
mod opening;
mod orders;
mod page;
mod parts;
mod postgres;
mod prune;
mod read;
mod schema;
mod sql;
mod sqlite;
mod trail;

pub use address::Address;
pub use alerts::{ALERTS_PER_DECISION_MAX, FindingName, HostAlerts, HostBoard};
pub use fleet::{FLEET_HOSTS_MAX, FleetHost, FleetNow, HostView, Worst};
pub use machines::{Claim, Claimed, MachineLimits};
pub use opening::Opening;
pub use orders::{KeptOrder, OrderState};
pub use page::{Before, CasePage, CaseQuery};
pub use prune::{Limits, Pruned};
pub use read::{Counts, People};

use crate::{Error, Result};
use sql::{Answer, Sql, Trouble};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};
use surefoot_model::{KnownMachine, MachineId};

/// What agents said of machines, by host.
type KnownMachines = BTreeMap<String, KnownMachine>;

/// How old the numbers of hosts by service may be, and what is known of machines.
const SERVICES_AGE_MAX: Duration = Duration::from_secs(2);

/// A store of cases. Use it from one thread; each thread opens its own.
pub struct CaseStore {
    connected: Connected,
    /// Cases as their rows said when they were read last, by number: most of them are the same the next time.
    known: HashMap<u64, read::KnownCase>,
    /// The same of the open cases that were counted last.
    counted: HashMap<u64, read::KnownCase>,
    services: Option<(Instant, BTreeMap<String, u64>)>,
    machines: Option<(Instant, KnownMachines)>,
    /// Where the next decision goes on among alerts, where there are more than one decision is told of.
    unsettled_after: Option<alerts::Place>,
    /// Alerts that the last decisions could not read.
    unread_alerts: alerts::UnreadAlerts,
    late_alerts: alerts::LateAlerts,
    /// When the audit trail told last of a machine beyond the second one of a name.
    others_told: HashMap<(String, MachineId), u64>,
}

impl std::fmt::Debug for CaseStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaseStore").field("name", &self.connected.name).finish_non_exhaustive()
    }
}

impl CaseStore {
    /// Opens the store and makes its tables where there are none. A password stands in the address or comes from elsewhere.
    ///
    /// # Errors
    /// [`Error::CaseStore`], [`Error::NotCases`], [`Error::Cases`] where a server cannot be asked now, and for a file those of
    /// [`crate::history::History::open`].
    pub fn open(address: &Address, password: Option<&str>) -> Result<CaseStore> {
        CaseStore::open_as(address, password, &Opening::create())
    }

    /// Opens the store, makes its tables only where `opening` says so, and only as the store that its other connections have open.
    ///
    /// # Errors
    /// As [`CaseStore::open`]; [`Error::NoStore`] and [`Error::Moved`].
    pub fn open_as(address: &Address, password: Option<&str>, opening: &Opening) -> Result<CaseStore> {
        let sql: Box<dyn Sql> = match address {
            Address::Sqlite(path) => Box::new(sqlite::Sqlite::open(path, opening)?),
            Address::Postgres(url) => {
                let wrong = |why| Error::CaseStore { address: address.to_string(), why };
                Box::new(postgres::Postgres::new(url, password).map_err(wrong)?)
            }
        };
        let mut connected = Connected { name: address.to_string(), sql };
        let may_create = matches!(address, Address::Postgres(_)) && opening.may_create()?;
        schema::lay(&mut connected, may_create)?;
        connected.ask("looking at its files", |sql| sql.is_laid())?;
        Ok(CaseStore {
            connected,
            known: HashMap::new(),
            counted: HashMap::new(),
            services: None,
            machines: None,
            unsettled_after: None,
            unread_alerts: HashMap::new(),
            late_alerts: HashMap::new(),
            others_told: HashMap::new(),
        })
    }

    /// Copies beside a store in a file, the oldest first, of what the store held when its file was deleted or replaced under a controller.
    ///
    /// # Errors
    /// [`Error::Open`] where its directory cannot be read.
    pub fn saved_beside(address: &Address) -> Result<Vec<std::path::PathBuf>> {
        match address {
            Address::Sqlite(path) => sqlite::saved_beside(path),
            Address::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// Where it is, without a password.
    pub fn name(&self) -> &str {
        &self.connected.name
    }

    /// The time of the store, nanoseconds since 1970.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn now_realtime_ns(&mut self) -> Result<u64> {
        self.connected.ask("asking for the time", |sql| sql.now_ns())
    }

    /// Whether everything is paused.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn is_paused(&mut self) -> Result<bool> {
        self.connected.ask("asking whether it is paused", |sql| is_paused(sql))
    }
}

fn is_paused(sql: &mut dyn Sql) -> Answer<bool> {
    let rows = sql.rows("SELECT number FROM remedy_meta WHERE name = 'is_paused'", &[])?;
    Ok(rows.first().is_some_and(|row| row.number(0) > 0))
}

/// A database, and its name for people.
struct Connected {
    name: String,
    sql: Box<dyn Sql>,
}

impl Connected {
    /// Asks without changing anything.
    fn ask<T>(&mut self, doing: &'static str, asked: impl FnOnce(&mut dyn Sql) -> Answer<T>) -> Result<T> {
        let asked = self.sql.check_in_place().and_then(|()| asked(&mut *self.sql));
        asked.map_err(|trouble| self.failed(doing, trouble))
    }

    /// Changes something as a whole or not at all.
    fn transaction<T>(
        &mut self,
        doing: &'static str,
        alone: bool,
        change: impl FnOnce(&mut dyn Sql) -> Answer<T>,
    ) -> Result<T> {
        let outcome = self.within(alone, change);
        outcome.map_err(|trouble| {
            self.sql.roll_back();
            self.failed(doing, trouble)
        })
    }

    fn within<T>(&mut self, alone: bool, change: impl FnOnce(&mut dyn Sql) -> Answer<T>) -> Answer<T> {
        self.sql.check_in_place()?;
        self.sql.begin(alone)?;
        let done = change(&mut *self.sql)?;
        self.sql.commit()?;
        // What went into a file that was deleted meanwhile was not taken.
        self.sql.check_in_place()?;
        Ok(done)
    }

    fn failed(&self, doing: &'static str, trouble: Trouble) -> Error {
        error_of(self.name.clone(), doing, trouble)
    }
}

fn error_of(store: String, doing: &'static str, trouble: Trouble) -> Error {
    let why = match trouble {
        Trouble::Twice => "a unique row already exists".to_owned(),
        Trouble::Other(why) => why,
        Trouble::Ours(error) => return error,
    };
    Error::Cases { store, doing, why }
}
