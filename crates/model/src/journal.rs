use crate::weight::texts;
use crate::{
    Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, DeedTier, Happened, HappenedBody, Observed, Room,
    Subject, SubjectKind, Withheld,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One line of a job's journal: what the job decided about its checkpoints, or what became of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct JournalEntry {
    /// `CLOCK_REALTIME` of the writing, nanoseconds.
    pub realtime_ns: u64,
    /// Lines before this one that could not be written, since the session began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_count: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: JournalEvent,
}

impl JournalEntry {
    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        size_of_val(self)
            + match &self.event {
                JournalEvent::Decision(decided) => {
                    size_of_val(&**decided) + texts(&decided.reasons) + decided.failure.len()
                }
                JournalEvent::Asked(answered) => size_of_val(&**answered) + texts(&answered.reasons),
                JournalEvent::Restart { report, tier, .. } => report.len() + tier.as_ref().map_or(0, String::len),
                JournalEvent::NotDurable { why, .. } => why.len(),
                JournalEvent::Opened { job, weakness, .. } => job.len() + weakness.as_ref().map_or(0, String::len),
                JournalEvent::Durable { .. } | JournalEvent::Unread { .. } | JournalEvent::Removed { .. } => 0,
            }
    }

    /// The line as a deed; `None` where nothing was done or decided.
    pub fn deed(&self, job: &str) -> Option<Deed> {
        let done = || DeedOutcome::Done { observed: Observed::Written };
        let generation =
            |generation: u64, tier: &str| DeedTarget::Generation { generation, tier: DeedTier::of_word(tier) };
        let (action, target, outcome) = match &self.event {
            JournalEvent::Decision(decided) => {
                let target =
                    decided.generation.map_or(DeedTarget::Subject, |number| generation(number, &decided.place));
                let outcome = match (decided.failure.as_str(), decided.generation) {
                    ("", Some(_)) => done(),
                    ("", None) => {
                        DeedOutcome::Withheld { why: Withheld::NotWorthIt { reasons: decided.reasons.clone() } }
                    }
                    (failure, _) => DeedOutcome::Failed { error: failure.to_owned() },
                };
                (DeedAction::Checkpoint, target, outcome)
            }
            JournalEvent::Durable { tier, generation: number, .. } => {
                (DeedAction::MakeDurable, generation(*number, tier), done())
            }
            JournalEvent::NotDurable { tier, generation: number, why } => {
                let outcome = DeedOutcome::Failed { error: why.clone() };
                (DeedAction::MakeDurable, generation(*number, tier), outcome)
            }
            JournalEvent::Restart { generation: Some(number), tier, .. } => {
                let tier = tier.as_deref().map_or(DeedTier::Unknown, DeedTier::of_word);
                let target = DeedTarget::Generation { generation: *number, tier };
                (DeedAction::Restore, target, DeedOutcome::Done { observed: Observed::Intact })
            }
            JournalEvent::Restart { generation: None, report, .. } => {
                let outcome = match self.event.is_failure() {
                    true => DeedOutcome::Failed { error: report.clone() },
                    false => DeedOutcome::Withheld { why: Withheld::NothingThere },
                };
                (DeedAction::Restore, DeedTarget::Subject, outcome)
            }
            JournalEvent::Removed { tier, .. } => {
                let target = DeedTarget::Part { name: DeedTier::of_word(tier).label().to_owned() };
                (DeedAction::RemoveCheckpoints, target, DeedOutcome::Done { observed: Observed::FilesGone })
            }
            JournalEvent::Opened { .. } | JournalEvent::Asked(_) | JournalEvent::Unread { .. } => return None,
        };
        let actor = match self.event {
            JournalEvent::Removed { uid, .. } => Actor::Command { uid },
            _ => Actor::Session { job: job.to_owned() },
        };
        Some(Deed {
            at_realtime_ns: self.realtime_ns,
            begun_realtime_ns: self.realtime_ns,
            room: Room::Checkpoint,
            subject: Subject::new(SubjectKind::Job, job),
            actor,
            action,
            target,
            reason: DeedReason::Asked,
            outcome,
        })
    }

    /// What the history keeps of it; `None` for a line that says again what an earlier one said.
    pub(crate) fn happened(&self, job: &str) -> Option<Happened<'_>> {
        let kind = match &self.event {
            // Said again where a journal goes on in another file; the session began earlier.
            JournalEvent::Opened { is_repeated: true, .. } => return None,
            JournalEvent::Opened { .. } => "opened",
            JournalEvent::Decision(_) => "decision",
            JournalEvent::Asked(_) => "asked",
            JournalEvent::Durable { .. } => "durable",
            JournalEvent::NotDurable { .. } => "not_durable",
            JournalEvent::Restart { .. } => "restart",
            JournalEvent::Unread { .. } => "unread",
            JournalEvent::Removed { .. } => "removed",
        };
        let subject = Subject::new(SubjectKind::Job, job);
        let (at_realtime_ns, body) = (self.realtime_ns, HappenedBody::Journal(self));
        Some(Happened { room: Room::Checkpoint, kind, subject, at_realtime_ns, body })
    }
}

/// What happened to a job's checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JournalEvent {
    /// A session began.
    Opened {
        /// The job.
        job: String,
        /// Its ranks.
        ranks: u32,
        /// The word for the policy.
        policy: String,
        /// The directory that several nodes share, where there is one: below it the job's copies are no SSD's.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        shared: String,
        /// What the redundancy that is set does not protect from, in a sentence; empty where it does what it is there for, or none
        /// is set. `None` from a release that did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weakness: Option<String>,
        /// Whether it began in the file before this one, and the line is here so that it is not forgotten.
        #[serde(default, skip_serializing_if = "is_no")]
        is_repeated: bool,
    },
    /// It was decided where a checkpoint goes, and it went there or failed.
    Decision(Box<Decided>),
    /// The job asked whether a checkpoint pays, and the answer is another than the last that was written.
    Asked(Box<Answered>),
    /// A checkpoint that was written in the background has come to a durable tier.
    Durable {
        /// `durable` on the node's own drive, `shared` in the shared directory.
        tier: String,
        /// Its number.
        generation: u64,
        /// Seconds from the moment at which it was taken to this line.
        age_s: f64,
        /// Seconds that writing took.
        took_s: f64,
        /// Bytes that all ranks wrote.
        bytes: u64,
        /// Whether the tier survives the loss of power on all ranks; `None` where a medium is not known, or the release did
        /// not look.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        is_durable: Option<bool>,
    },
    /// Written by no job: the watch says here that lines of the journal may be missing before this time. The journal was replaced between
    /// two looks, by another one or because it was full, and what it held then was not read to its end.
    Unread {
        /// The time of the last line that was read before, `CLOCK_REALTIME`.
        since_realtime_ns: u64,
    },
    /// A checkpoint on its way did not become durable.
    NotDurable {
        /// As above.
        tier: String,
        /// Its number.
        generation: u64,
        /// Why.
        why: String,
    },
    /// Written by no job: a command removed all that the job had in one of its tiers.
    Removed {
        /// `memory`, `durable` or `shared`.
        tier: String,
        /// The user who ran the command.
        uid: u32,
    },
    /// The job asked for its newest checkpoint.
    Restart {
        /// The one that came back; `None` when there was none, or none was intact.
        generation: Option<u64>,
        /// What rank 0 found, or why nothing came back.
        report: String,
        /// How it ended; `None` in a journal of an older release: see [`JournalEvent::is_failure`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<RestartOutcome>,
        /// The tier that rank 0 read its part from: `memory`, `durable` or `shared`; `None` where it came from other nodes, nothing
        /// came back, or an older release wrote it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
    },
}

/// How a job's request for its newest checkpoint ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestartOutcome {
    /// A checkpoint was restored.
    Restored,
    /// There was none: the job begins.
    NoCheckpoint,
    /// There was one, or there may have been one, and none could be restored.
    Failed,
    /// A word of a newer release.
    #[serde(other)]
    Unknown,
}

/// The report of a restart without a checkpoint, in journals of releases that wrote no outcome.
const FORMER_NO_CHECKPOINT: &str = "there was no checkpoint";

impl JournalEvent {
    /// Whether it says that something failed. What is not known to have succeeded counts as failed.
    pub fn is_failure(&self) -> bool {
        match self {
            JournalEvent::Decision(decided) => !decided.failure.is_empty(),
            JournalEvent::NotDurable { .. } => true,
            JournalEvent::Restart { generation: Some(_), .. } => false,
            JournalEvent::Restart { report, outcome: None, .. } => report != FORMER_NO_CHECKPOINT,
            JournalEvent::Restart { outcome: Some(outcome), .. } => {
                !matches!(outcome, RestartOutcome::Restored | RestartOutcome::NoCheckpoint)
            }
            JournalEvent::Opened { .. }
            | JournalEvent::Asked(_)
            | JournalEvent::Durable { .. }
            | JournalEvent::Unread { .. }
            | JournalEvent::Removed { .. } => false,
        }
    }
}

/// An answer to whether a checkpoint pays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Answered {
    /// Where one would go that were taken then, as in [`Decided`]; `skip` when none pays.
    pub place: String,
    /// Why, the deciding reason first.
    pub reasons: Vec<String>,
    /// How often the job asked since the last such line, this time included. The answers between were the same but for
    /// their numbers, or changed too often to be written each time.
    pub asked_count: u64,
    /// Age of the newest durable copy; of the session where it has none.
    pub durable_age_s: f64,
    /// Seconds since the session began.
    pub session_s: f64,
}

/// A decision, with what was known and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Decided {
    /// Where it went: the label of the place in lower case, with `_` for spaces.
    pub place: String,
    /// Its number; `None` when none was taken.
    pub generation: Option<u64>,
    /// Why, the deciding reason first.
    pub reasons: Vec<String>,
    /// Why it could not be saved; empty when it was, or none was to be.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Bytes of rank 0's payload.
    pub payload_bytes: u64,
    /// Bytes of the whole checkpoint on one node in the durable tier; the maximum over nodes.
    pub node_bytes: u64,
    /// Seconds that the call took.
    pub visible_s: f64,
    /// Age of the newest durable copy before the decision; of the session where it has none.
    pub durable_age_s: f64,
    /// The bound on that age, where the policy has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staleness_max_s: Option<f64>,
    /// Bytes that the durable tier took on one node since the session began; the maximum over nodes.
    pub durable_bytes: u64,
    /// Seconds since the session began.
    pub session_s: f64,
    /// Of these, visible in checkpoints.
    pub checkpoint_s: f64,
    /// Where the drive's endurance is known: bytes per second that it bears until the end of its planned life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes_per_s: Option<f64>,
    /// Where it is known: bytes that may still be written before the rating is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance_left_bytes: Option<f64>,
    /// Decisions of the session so far by place, this one included.
    pub decided: BTreeMap<String, u64>,
}

fn is_no(value: &bool) -> bool {
    !value
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_restart_fails_unless_it_is_known_that_there_was_nothing_to_restore() {
        let failed = |rest: &str| {
            let line = format!(r#"{{"realtime_ns": 1, "event": "restart", {rest}}}"#);
            serde_json::from_str::<JournalEntry>(&line).unwrap().event.is_failure()
        };
        // What older releases wrote.
        assert!(!failed(r#""generation": 3, "report": "rank 0: 4 pages, intact""#));
        assert!(!failed(r#""generation": null, "report": "there was no checkpoint""#));
        assert!(failed(r#""generation": null, "report": "checkpoint 3 is damaged""#));
        // The outcome decides, whatever the report says.
        assert!(!failed(r#""generation": null, "report": "none here", "outcome": "no_checkpoint""#));
        assert!(failed(r#""generation": null, "report": "there was no checkpoint", "outcome": "failed""#));
        assert!(failed(r#""generation": null, "report": "there was no checkpoint", "outcome": "of a newer release""#));
    }
}
