//! Alerts and findings that were not taken: counted by reason, in the audit trail and in the log, each within limits. The sender of a refused
//! alert hears of it once and drops it.

use super::strangers;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_http::lock;
use surefoot_model::AuditEntry;

/// Reasons that an answer and a line of the trail name.
const REASONS_MAX: usize = 10;
/// How often the log tells of refusals.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Why something was not taken, as the label of the metric says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is not written as Alertmanager writes an alert.
    Format,
    /// It names no host.
    Host,
    /// It is neither firing nor resolved.
    Status,
    /// Its times cannot be read.
    Time,
    /// It has too many labels, or one that cannot be kept.
    Labels,
    /// It says that an agent found it, and none did.
    Origin,
    /// Alertmanager left it out of its message.
    Truncated,
    /// A report had more findings or parts than there is room for.
    Findings,
}

impl Reason {
    pub(super) const ALL: [Reason; 8] = [
        Reason::Format,
        Reason::Host,
        Reason::Status,
        Reason::Time,
        Reason::Labels,
        Reason::Origin,
        Reason::Truncated,
        Reason::Findings,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Reason::Format => "format",
            Reason::Host => "host",
            Reason::Status => "status",
            Reason::Time => "time",
            Reason::Labels => "labels",
            Reason::Origin => "origin",
            Reason::Truncated => "truncated",
            Reason::Findings => "findings",
        }
    }
}

/// What was not taken of one message.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused {
    counts: [u64; Reason::ALL.len()],
    /// Why, the first few.
    pub(super) reasons: Vec<String>,
}

impl Refused {
    /// The number may be the sender's.
    pub(super) fn add(&mut self, reason: Reason, count: u64, why: &str) {
        let sum = &mut self.counts[reason as usize];
        *sum = sum.saturating_add(count);
        let why = strangers::text(why);
        if self.reasons.len() < REASONS_MAX && !self.reasons.contains(&why) {
            self.reasons.push(why);
        }
    }

    /// All that were in the message and were refused: not those that its sender left out.
    pub(super) fn count(&self) -> u64 {
        let of_message = Reason::ALL.into_iter().filter(|reason| *reason != Reason::Truncated);
        of_message.fold(0, |sum, reason| sum.saturating_add(self.counts[reason as usize]))
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }
}

/// All that was not taken since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_reason: [AtomicU64; Reason::ALL.len()],
    /// Messages whose refusals are not in the trail: too many at once, or the store was away.
    pub(super) unnoted: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    told: Option<Instant>,
    waiting: u64,
    newest: String,
}

impl Refusals {
    pub(super) fn count(&self, reason: Reason) -> u64 {
        self.by_reason[reason as usize].load(Ordering::Relaxed)
    }

    /// Counts what was refused of a message of `caller`, and puts it before the log. The line for the trail; `None` if nothing was refused.
    pub(super) fn take(&self, caller: &str, what: &str, refused: &Refused) -> Option<AuditEntry> {
        if refused.is_empty() {
            return None;
        }
        for (sum, count) in self.by_reason.iter().zip(refused.counts) {
            let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_add(count)));
        }
        let count = refused.counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        let reason = strangers::text(&refused.reasons.join("; "));
        let mut log = lock(&self.log);
        log.waiting = log.waiting.saturating_add(count);
        log.newest = format!("{caller}: {reason}");
        Some(AuditEntry {
            at_realtime_ns: 0,
            case: 0,
            actor: caller.to_owned(),
            action: "not_taken".into(),
            target: format!("{count} {what}"),
            reason,
        })
    }

    /// What the log is to say now: at once of the first, then once a minute.
    pub(super) fn news(&self) -> Option<String> {
        let mut log = lock(&self.log);
        if log.waiting == 0 || log.told.is_some_and(|told| told.elapsed() < LOG_PERIOD) {
            return None;
        }
        log.told = Some(Instant::now());
        let count = std::mem::take(&mut log.waiting);
        let them =
            if count == 1 { "1 alert or finding was".to_owned() } else { format!("{count} alerts or findings were") };
        Some(format!("{them} refused, the newest of {}", std::mem::take(&mut log.newest)))
    }
}
