//! What Surefoot did on this host, whichever part of it: the fold over deeds, and the answer of `/api/v1/deeds`.

use crate::answer::Header;
use crate::viewer::Private;
use crate::viewer::Viewer;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use surefoot_model::{Actor, CheckpointEvent, Deed, DeedAction, DeedOutcome, Event, Room, SubjectKind};

/// Deeds that are kept of each user in each room: the newest.
const KEPT_MAX: usize = 64;
/// Users of a room that have a list of their own; those beyond share one. The host's and root's always has its own.
const USERS_MAX: usize = 32;
/// Owners of jobs and beginnings of experiments that are remembered, each.
const REMEMBERED_MAX: usize = 1024;

/// Why there are none.
const NONE_YET: &str = "no journal that was read so far says that Surefoot changed or decided anything on this host";
/// Why somebody who does not see all has none.
const NONE_SHOWN: &str = "nothing that this user may see; root sees all";

/// Deeds that share a limit, so that no user pushes another's out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct List {
    room: Room,
    /// Who wrote the journal that says so; `None` where that is not known, and for users beyond [`USERS_MAX`].
    uid: Option<u32>,
    /// Whether users other than root see them.
    is_public: bool,
}

#[derive(Debug, Default, Clone)]
struct Kept {
    /// Oldest first.
    deeds: VecDeque<Deed>,
    left_out_count: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub struct State {
    kept: BTreeMap<List, Kept>,
    counts: Counts,
    /// Whose directories a job's are.
    jobs: BTreeMap<String, Option<u32>>,
    /// The beginning of each experiment that has not ended.
    experiments: BTreeMap<String, Deed>,
}

impl State {
    /// Takes an event in; whether it tells of a deed.
    pub fn take(&mut self, event: &Event) -> bool {
        self.remember(event);
        let deeds = event.deeds();
        let is_any = !deeds.is_empty();
        for mut deed in deeds {
            let uid = self.attribute(&mut deed);
            *self.counts.entry((deed.room, deed.action, deed.outcome.as_str())).or_default() += 1;
            let list = self.list(&deed, uid);
            let kept = self.kept.entry(list).or_default();
            if kept.deeds.len() == KEPT_MAX {
                kept.deeds.pop_front();
                kept.left_out_count += 1;
            }
            kept.deeds.push_back(deed);
        }
        is_any
    }

    /// Keeps in mind whose a job is, and forgets those that are gone.
    fn remember(&mut self, event: &Event) {
        match event {
            Event::Checkpoint(CheckpointEvent::Job(job))
                if self.jobs.len() < REMEMBERED_MAX || self.jobs.contains_key(&job.name) =>
            {
                self.jobs.insert(job.name.clone(), job.uid);
            }
            Event::Checkpoint(CheckpointEvent::Gone { job }) => _ = self.jobs.remove(job),
            _ => {}
        }
    }

    /// Whose journal says so. An experiment's end gets who began it, and when.
    fn attribute(&mut self, deed: &mut Deed) -> Option<u32> {
        match deed.subject.kind {
            SubjectKind::Job => self.jobs.get(&deed.subject.name).copied().flatten(),
            SubjectKind::Experiment => {
                if deed.outcome == DeedOutcome::Begun {
                    self.begin(deed);
                } else if let Some(begun) = self.experiments.remove(&deed.subject.name) {
                    deed.begun_realtime_ns = begun.begun_realtime_ns;
                    deed.actor = begun.actor;
                }
                if let Actor::Command { uid } = deed.actor { Some(uid) } else { None }
            }
            // Only root writes the host's journal.
            _ => Some(0),
        }
    }

    fn begin(&mut self, deed: &Deed) {
        if self.experiments.len() == REMEMBERED_MAX {
            self.experiments.pop_first();
        }
        self.experiments.insert(deed.subject.name.clone(), deed.clone());
    }

    fn list(&self, deed: &Deed, uid: Option<u32>) -> List {
        let list = List { room: deed.room, uid, is_public: is_public(deed) };
        let users = self.kept.keys().filter(|other| other.room == deed.room && other.uid.is_some_and(|uid| uid != 0));
        let has_place = uid == Some(0) || self.kept.contains_key(&list) || users.count() < USERS_MAX;
        List { uid: uid.filter(|_| has_place), ..list }
    }

    /// How many there were of each kind.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Those that are kept, for the answer.
    pub fn lists(&self) -> Lists {
        Lists { kept: self.kept.clone(), is_whole: true }
    }
}

/// How many deeds there were, by room, action and outcome.
pub type Counts = BTreeMap<(Room, DeedAction, &'static str), u64>;

/// Deeds of which an answer is made.
pub struct Lists {
    kept: BTreeMap<List, Kept>,
    /// Whether that is all of them, with who did them and why.
    is_whole: bool,
}

impl Private for Lists {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if !viewer.sees_all {
            self.is_whole = false;
            self.kept.retain(|list, _| list.is_public);
            let deeds = self.kept.values_mut().flat_map(|kept| &mut kept.deeds);
            deeds.for_each(|deed| *deed = deed.for_everybody());
        }
        self
    }
}

/// Deeds at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Deeds")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    pub header: Header,
    /// The newest of each user in each room, newest first.
    pub deeds: Vec<ShownDeed>,
    /// Older ones that are not kept here.
    pub left_out_count: u64,
    /// The same by room and user; those with none are not listed.
    pub left_out: Vec<LeftOut>,
    /// Lines of the host's journal that are not deeds of this release, since the start: torn, too long, or of another release.
    pub unread_count: u64,
}

/// Deeds of one user in one room that are not kept.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The room.
    pub room: Room,
    /// Whose journal they stand in; absent where that is not known, and for users beyond the limit, who share one list.
    #[schemars(with = "u32")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// How many.
    pub count: u64,
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
    /// Of these; `cannot` says why the host's journal is not read, `unread_count` how many of its lines could not be.
    pub fn of(lists: Lists, cannot: Option<String>, unread_count: u64) -> Answer {
        let Lists { kept, is_whole } = lists;
        let left_out: Vec<LeftOut> = kept
            .iter()
            .filter(|(_, kept)| kept.left_out_count > 0)
            .map(|(list, kept)| LeftOut { room: list.room, uid: list.uid, count: kept.left_out_count })
            .collect();
        let mut deeds: Vec<Deed> = kept.into_values().flat_map(|kept| kept.deeds).collect();
        deeds.sort_by_key(|deed| std::cmp::Reverse(deed.at_realtime_ns));
        let why =
            deeds.is_empty().then(|| cannot.unwrap_or_else(|| if is_whole { NONE_YET } else { NONE_SHOWN }.to_owned()));
        let shown = |deed: Deed| {
            let (by, because) = match is_whole {
                true => (deed.actor.to_string(), deed.reason.to_string()),
                false => (String::new(), String::new()),
            };
            ShownDeed { words: deed.words(), by, because, deed }
        };
        let deeds = deeds.into_iter().map(shown).collect();
        let left_out_count = left_out.iter().map(|one| one.count).sum();
        Answer { header: Header::new(why), deeds, left_out_count, left_out, unread_count }
    }
}

/// Whether users other than root see it: it names neither what a user runs nor another host of the fleet, about which a controller's
/// cases are for those who see everything.
fn is_public(deed: &Deed) -> bool {
    match deed.subject.kind {
        SubjectKind::Job | SubjectKind::Experiment => false,
        SubjectKind::Host => deed.subject.name.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{
        Carried, CarriedKind, CheckpointJob, DeedReason, DeedTarget, DisturbEvent, ExperimentBegan, ExperimentEnded,
        ExperimentOutcome, JournalEntry, JournalEvent, Subject, Withheld,
    };

    const ROOT: Viewer = Viewer { uid: Some(0), sees_all: true, named: None };
    const USER: Viewer = Viewer { uid: Some(1000), sees_all: false, named: None };

    fn answered(state: &State, viewer: Viewer) -> Answer {
        viewer.show(state.lists(), |lists| Answer::of(lists, None, 0)).into_answer()
    }

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
        let answer = answered(&state, Viewer { uid: None, sees_all: true, named: None });
        assert_eq!((answer.deeds.len(), answer.left_out_count, answer.header.why), (65, 6, None));
        assert_eq!(answer.deeds[0].deed.at_realtime_ns, 69);
        assert_eq!(state.counts.values().sum::<u64>(), 71);
        let none = answered(&State::default(), Viewer { uid: None, sees_all: true, named: None });
        assert_eq!(none.header.why.as_deref(), Some(NONE_YET));
        // What others did is not denied to who may not see it.
        let hidden = answered(&State::default(), Viewer { uid: Some(1000), sees_all: false, named: None });
        assert_eq!(hidden.header.why.as_deref(), Some(NONE_SHOWN));
    }

    #[test]
    fn who_is_not_root_sees_that_something_was_done_and_not_for_whom() {
        let mut state = State::default();
        [Room::Nic, Room::Checkpoint].into_iter().for_each(|room| _ = state.take(&deed(1, room)));
        let text = |sees_all| {
            let answer = answered(&state, Viewer { uid: Some(1000), sees_all, named: None });
            (answer.deeds.len(), serde_json::to_string(&answer).unwrap())
        };
        let (all, said) = text(true);
        assert!(all == 2 && said.contains("192.0.2.7") && said.contains("root's command") && said.contains("nic/hung"));
        let (some, said) = text(false);
        assert!(some == 1 && said.contains("link_cycle"), "{said}");
        for private in ["train", "192.0.2.7", "root's", "nic/hung", "web", "\"uid\"", "\"case\""] {
            assert!(!said.contains(private), "{private}: {said}");
        }
    }

    fn jobs_journal(job: &str, uid: u32, count: u64) -> Vec<Event> {
        let durable = |realtime_ns| {
            let text = serde_json::json!({
                "realtime_ns": realtime_ns, "event": "durable", "tier": "durable", "generation": 1, "age_s": 1.0,
                "took_s": 1.0, "bytes": 1, "is_durable": true,
            });
            serde_json::from_value::<JournalEntry>(text).unwrap()
        };
        let seen = CheckpointJob { name: job.into(), uid: Some(uid), ..CheckpointJob::default() };
        let entries: Vec<JournalEntry> = (0..count).map(durable).collect();
        assert!(entries.iter().all(|entry| matches!(entry.event, JournalEvent::Durable { .. })));
        let (left_out_count, skipped_count, is_another) = (0, 0, false);
        let lines = CheckpointEvent::Journal { job: job.into(), entries, left_out_count, skipped_count, is_another };
        vec![Event::Checkpoint(CheckpointEvent::Job(seen)), Event::Checkpoint(lines)]
    }

    fn count_of(answer: &Answer, name: &str) -> usize {
        answer.deeds.iter().filter(|shown| shown.deed.subject.name == name).count()
    }

    #[test]
    fn no_user_pushes_anothers_deeds_out() {
        let mut state = State::default();
        let mut take = |job: &str, uid, count| {
            jobs_journal(job, uid, count).iter().for_each(|event| _ = state.take(event));
            answered(&state, ROOT)
        };
        take("of-root", 0, 5);
        let answer = take("flood", 65_534, 200);
        assert_eq!((count_of(&answer, "of-root"), count_of(&answer, "flood")), (5, KEPT_MAX));
        let left_out: Vec<_> = answer.left_out.iter().map(|one| (one.room, one.uid, one.count)).collect();
        assert_eq!(left_out, [(Room::Checkpoint, Some(65_534), 136)]);
        assert_eq!(answer.left_out_count, 136);
        // As many users as somebody has subordinate ones.
        let answer = (0..2 * USERS_MAX as u32).map(|uid| take(&format!("job-{uid}"), 100_000 + uid, 3)).last().unwrap();
        assert_eq!(count_of(&answer, "of-root"), 5);
        assert!(answer.deeds.len() <= (USERS_MAX + 2) * KEPT_MAX, "{}", answer.deeds.len());
        assert_eq!(answer.deeds.len() as u64 + answer.left_out_count, 205 + 6 * USERS_MAX as u64);
    }

    #[test]
    fn an_experiments_end_has_the_actor_and_the_beginning_of_its_begin() {
        let mut state = State::default();
        let began = ExperimentBegan { experiment: "e".into(), uid: Some(0), at_realtime_ns: 7, ..Default::default() };
        let ended = ExperimentEnded {
            experiment: "e".into(),
            at_ns: 2,
            at_realtime_ns: 9,
            outcome: ExperimentOutcome::Finished,
            why: String::new(),
            effect: None,
            summary: String::new(),
            warnings: Vec::new(),
        };
        state.take(&Event::Disturb(DisturbEvent::Began(began.into())));
        state.take(&Event::Disturb(DisturbEvent::Ended(ended)));
        let answer = answered(&state, ROOT);
        let said: Vec<_> = answer.deeds.iter().map(|one| (one.by.as_str(), one.deed.begun_realtime_ns)).collect();
        assert_eq!(said, [("root's command", 7), ("root's command", 7)]);
        assert!(state.experiments.is_empty() && answered(&state, USER).deeds.is_empty());
    }

    #[test]
    fn what_a_controller_does_on_other_hosts_is_shown_to_those_who_see_everything() {
        let mut state = State::default();
        for name in ["", "n1"] {
            let Event::Deed(mut other) = deed(1, Room::Remedy) else { unreachable!() };
            other.subject = Subject::new(SubjectKind::Host, name);
            state.take(&Event::Deed(other));
        }
        let names = |viewer| -> Vec<String> {
            answered(&state, viewer).deeds.into_iter().map(|one| one.deed.subject.name).collect()
        };
        assert_eq!(names(ROOT), ["n1", ""]);
        assert_eq!(names(USER), [""]);
    }
}
