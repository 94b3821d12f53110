//! What Surefoot did on this host, whichever part of it: the fold over deeds, and the answer of `/api/v1/deeds`.

mod source;

pub use source::source;

use crate::http::SCHEMA;
use crate::http::access::Viewer;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType::Counter;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use surefoot_model::{Deed, DeedAction, Event, Room, SubjectKind};

/// Deeds that are kept of each room: the newest.
const KEPT_MAX: usize = 64;

/// What its address answers.
pub(crate) const SAYS: &str = "What Surefoot did on this host: who did what, why, and with what outcome.";

/// Why there are none.
const NONE_YET: &str = "Surefoot has changed nothing on this host and decided nothing that a journal records";

/// Why this process cannot read the host's journal; `None` where it can, or there is none.
pub(crate) fn why_not_read() -> Option<String> {
    let held = surefoot_foreign::hold_name(Path::new(surefoot_journal::deeds::FILE));
    let error = held.and_then(|held| held.regular()?.open()).err()?;
    let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
    is_denied.then(|| format!("{} can be read by root only", surefoot_journal::deeds::FILE))
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Of each room, oldest first.
    kept: BTreeMap<Room, VecDeque<Deed>>,
    left_out_count: u64,
    counts: BTreeMap<(Room, DeedAction, &'static str), u64>,
}

impl State {
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        let deeds = event.deeds();
        let is_any = !deeds.is_empty();
        for deed in deeds {
            *self.counts.entry((deed.room, deed.action, deed.outcome.as_str())).or_default() += 1;
            let kept = self.kept.entry(deed.room).or_default();
            if kept.len() == KEPT_MAX {
                kept.pop_front();
                self.left_out_count += 1;
            }
            kept.push_back(deed);
        }
        is_any
    }

    /// Writes how many there were of each kind.
    ///
    /// # Errors
    /// Never in practice: the text goes to memory.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if self.counts.is_empty() {
            return Ok(());
        }
        let help = "Actions of Surefoot on this host by outcome, including those of the day before the start.";
        let mut family = encoder.encode_descriptor("watch_deeds", help, None, Counter)?;
        self.counts.iter().try_for_each(|((room, action, outcome), count)| {
            let labels = [("room", room.as_str()), ("action", action.as_str()), ("outcome", outcome)];
            family
                .encode_family(&labels)?
                .encode_counter::<prometheus_client::encoding::NoLabelSet, _, f64>(count, None)
        })
    }
}

/// Deeds at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Deeds")]
pub struct Answer {
    /// [`crate::SCHEMA`].
    pub schema: u32,
    /// The version of Surefoot.
    pub version: &'static str,
    /// Why there is nothing to see; absent where there is.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The newest of each room, newest first.
    pub deeds: Vec<ShownDeed>,
    /// Older ones that are not kept here.
    pub left_out_count: u64,
}

/// A deed with its words.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ShownDeed {
    /// The deed.
    #[serde(flatten)]
    pub deed: Deed,
    /// What was done and what came of it, one line.
    pub words: String,
    /// Who did it; empty for viewers who may not know.
    pub by: String,
    /// Why; empty for viewers who may not know.
    pub because: String,
}

impl Answer {
    /// What this viewer may see; `cannot` says why the host's journal is not read.
    pub(crate) fn of(state: &State, viewer: Viewer, cannot: Option<String>) -> Answer {
        let mut deeds: Vec<&Deed> = state.kept.values().flatten().collect();
        deeds.sort_by_key(|deed| std::cmp::Reverse(deed.at_realtime_ns));
        let why = deeds.is_empty().then(|| cannot.unwrap_or_else(|| NONE_YET.to_owned()));
        let shown = |deed: &Deed| {
            let deed = if viewer.sees_all { deed.clone() } else { deed.for_everybody() };
            let (by, because) = match viewer.sees_all {
                true => (deed.actor.to_string(), deed.reason.to_string()),
                false => (String::new(), String::new()),
            };
            ShownDeed { words: deed.words(), by, because, deed }
        };
        let deeds = deeds.into_iter().filter(|deed| viewer.sees_all || !is_of_a_user(deed)).map(shown).collect();
        Answer { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), why, deeds, left_out_count: state.left_out_count }
    }
}

/// Whether it names what a user runs.
fn is_of_a_user(deed: &Deed) -> bool {
    matches!(deed.subject.kind, SubjectKind::Job | SubjectKind::Experiment)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{Actor, Carried, CarriedKind, DeedOutcome, DeedReason, DeedTarget, Subject, Withheld};

    fn deed(at_realtime_ns: u64, room: Room) -> Event {
        Event::Deed(Box::new(Deed {
            at_realtime_ns,
            begun_realtime_ns: at_realtime_ns,
            room,
            subject: match room {
                Room::Checkpoint => Subject::new(SubjectKind::Job, "train"),
                _ => Subject::new(SubjectKind::Interface, "eth0"),
            },
            actor: Actor::Command { uid: 0 },
            action: DeedAction::LinkCycle,
            target: DeedTarget::Subject,
            reason: DeedReason::Case { case: 7, fault: "nic/hung".into(), service: "web".into() },
            outcome: DeedOutcome::Withheld {
                why: Withheld::InUse {
                    carries: vec![Carried::new(CarriedKind::SshSession, "an SSH session of 192.0.2.7")],
                },
            },
        }))
    }

    #[test]
    fn the_newest_of_each_room_are_kept_and_the_rest_is_counted() {
        let mut state = State::default();
        (0..70).for_each(|at| assert!(state.take(&deed(at, Room::Nic))));
        state.take(&deed(0, Room::Memory));
        let answer = Answer::of(&state, Viewer { uid: None, sees_all: true }, None);
        assert_eq!((answer.deeds.len(), answer.left_out_count, answer.why), (65, 6, None));
        assert_eq!(answer.deeds[0].deed.at_realtime_ns, 69);
        assert_eq!(state.counts.values().sum::<u64>(), 71);
        let none = Answer::of(&State::default(), Viewer { uid: None, sees_all: true }, None);
        assert_eq!(none.why.as_deref(), Some(NONE_YET));
    }

    #[test]
    fn who_is_not_root_sees_that_something_was_done_and_not_for_whom() {
        let mut state = State::default();
        [Room::Nic, Room::Checkpoint].into_iter().for_each(|room| _ = state.take(&deed(1, room)));
        let text = |sees_all| {
            let answer = Answer::of(&state, Viewer { uid: Some(1000), sees_all }, None);
            (answer.deeds.len(), serde_json::to_string(&answer).unwrap())
        };
        let (all, said) = text(true);
        assert!(all == 2 && said.contains("192.0.2.7") && said.contains("root's command") && said.contains("nic/hung"));
        let (some, said) = text(false);
        assert!(some == 1 && said.contains("link_cycle"), "{said}");
        for private in ["train", "192.0.2.7", "root's", "nic/hung", "web", "\"uid\""] {
            assert!(!said.contains(private), "{private}: {said}");
        }
    }
}
