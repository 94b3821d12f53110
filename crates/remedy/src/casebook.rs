//! Where alerts, cases and the audit trail are kept. SQLite for one host and PostgreSQL for a fleet stand behind this; tests have one in
//! memory.

use crate::{Change, Error, Result, World};
use surefoot_model::{Alert, AuditEntry, Case, PartBook};

/// Where alerts, cases and the audit trail are kept.
///
/// A case is handed back with the [`surefoot_model::Case::revision`] that it was read with, and comes back with the next one. Of an open
/// case the store itself says, each time that it is read, whether its alert fires, how bad that was at its worst, and until when its
/// lease holds; what a change says of the first two is taken when the case is closed.
///
/// An alert is decided on once: [`Change::Open`] and [`Change::Settle`] say so. It is to be decided on again when it tells something
/// new (it ended, it came anew, it is worse), and when its case was closed while it still fires.
pub trait Casebook: Send {
    /// Takes alerts in: of each host and key the one that began or ended last counts, so that what comes twice, late or out of
    /// order changes nothing. Also tells of the open case that an alert belongs to whether it still fires.
    ///
    /// # Errors
    /// [`Error::Store`]; then none of them is taken in.
    fn take(&mut self, alerts: &[Alert]) -> Result<()>;

    /// Notes that this host lives and works for this service (empty for none).
    ///
    /// # Errors
    /// [`Error::Store`].
    fn host_seen(&mut self, host: &str, service: &str) -> Result<()>;

    /// Lets a decision be made on the whole of it, and writes its changes with the lines of the audit trail in one transaction. No other
    /// decision, of whichever controller, is made meanwhile. The changed cases as they are now. [`World::closed`] holds what was closed
    /// within `look_back_ns`. An update may also be of a closed case.
    ///
    /// # Errors
    /// [`Error::Store`] and [`Error::Conflict`]; then nothing of it is written.
    fn decide(
        &mut self,
        look_back_ns: u64,
        decision: &mut dyn FnMut(&World) -> Vec<(Change, AuditEntry)>,
    ) -> Result<Vec<Case>>;

    /// Makes every alert that fires and has no open case unsettled again: there are other policies now.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn reconsider(&mut self) -> Result<()>;

    /// Holds the lease of a case's step for longer.
    ///
    /// # Errors
    /// [`Error::Conflict`] where the lease is another's by now: what is being done is to be broken off.
    fn hold(&mut self, case: u64, fence: u64, until_realtime_ns: u64) -> Result<()>;

    /// Writes a changed case and why, refused unless the store still has the revision before it: what a controller does at the end of
    /// a step, and what a person asks for.
    ///
    /// # Errors
    /// [`Error::Store`] and [`Error::Conflict`]; then nothing of it is written.
    fn update(&mut self, case: &Case, entry: &AuditEntry) -> Result<Case>;

    /// One case.
    ///
    /// # Errors
    /// [`Error::NoCase`] and [`Error::Store`].
    fn case(&mut self, id: u64) -> Result<Case>;

    /// Cases, the newest first: all, or the open ones alone, at most so many.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn cases(&mut self, open_only: bool, limit: usize) -> Result<Vec<Case>>;

    /// The cases of one host, the newest first, at most so many.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn cases_of_host(&mut self, host: &str, limit: usize) -> Result<Vec<Case>>;

    /// What is kept of the part that a case is about: the cases of its host, at most so many, and where its serial number is known, those
    /// of other hosts about it, and where it was.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn part_book(&mut self, case: &Case, limit: usize) -> Result<PartBook> {
        Ok(PartBook { cases: self.cases_of_host(&case.host, limit)?, ..PartBook::default() })
    }

    /// The audit trail of a case, or of everything for 0; oldest first, the newest of them at most so many.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn trail(&mut self, case: u64, limit: usize) -> Result<Vec<AuditEntry>>;

    /// Adds a line of no case to the audit trail: a policy was loaded, somebody was refused.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn note(&mut self, entry: &AuditEntry) -> Result<()>;

    /// Pauses everything, or lets it go on.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn pause(&mut self, is_paused: bool, entry: &AuditEntry) -> Result<()>;

    /// The time of the store, `CLOCK_REALTIME` nanoseconds.
    ///
    /// # Errors
    /// [`Error::Store`].
    fn now_realtime_ns(&mut self) -> Result<u64>;
}

impl Error {
    /// Whether the same may work later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Store { .. })
    }
}

/// The line of the audit trail about an alert that says it has fired since before it was over: a word that came late, or of a sender whose clock
/// went back. Which of them is not known, so it opens no case.
pub fn late_line(alert: &Alert, over_realtime_ns: u64, now_realtime_ns: u64) -> AuditEntry {
    let at = crate::policy::utc_text;
    AuditEntry {
        at_realtime_ns: now_realtime_ns,
        case: 0,
        actor: "store".into(),
        action: "too_late".into(),
        target: surefoot_model::one_line(&format!("{} {}", alert.host, alert.key)),
        reason: format!(
            "it says that it fires since {}, and is known to be over since {}: not taken. If it fires now, the clock of its sender is behind",
            at(alert.since_realtime_ns),
            at(over_realtime_ns)
        ),
    }
}
