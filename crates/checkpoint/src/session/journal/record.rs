//! What a session writes down.

use super::{Answered, Decided, Journal, JournalEvent, REASONS_MAX};
use crate::Error;
use crate::config::Config;
use crate::controller::{Decision, Place, Policy, Situation};
use crate::generation::GenerationId;
use crate::session::outcomes::{Restored, Saved};
use std::fs;
use surefoot_model::{CheckpointTier as Tier, RestartOutcome};

/// Characters of one sentence that are kept.
const SENTENCE_CHARACTERS_MAX: usize = 300;

impl Journal {
    /// Writes down that the session begins, and has each file of the journal begin with that.
    pub fn opened(&mut self, config: &Config, ranks: u32, weakness: Option<&str>) {
        let shared = config.shared.as_ref().map(|shared| &shared.directory);
        // As the kernel calls it, whatever links lead there.
        let shared = shared.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
        let opened = |is_repeated: bool| JournalEvent::Opened {
            job: config.job.clone(),
            ranks,
            policy: config.policy.word().to_owned(),
            shared: shared.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
            weakness: Some(weakness.map(sentence).unwrap_or_default()),
            is_repeated,
        };
        self.append(opened(false));
        self.opening = Some(opened(true));
    }

    /// Writes down a decision whose checkpoint was taken, or failed.
    pub fn decided(
        &mut self,
        policy: &Policy,
        decision: &Decision,
        situation: &Situation,
        taken: &Result<Saved, Error>,
    ) {
        if self.directory().is_none() {
            return;
        }
        let place = place_word(decision.place);
        self.answers.decided();
        let count = self.decided.entry(place.clone()).or_default();
        *count = count.saturating_add(1);
        let (staleness_max_s, granted_share) = match policy {
            Policy::Surefoot(policy) => (Some(policy.staleness_max_s), policy.granted_share),
            Policy::Paper(_) | Policy::Fixed(_) => (None, 1.0),
        };
        let drive = situation.drive.as_ref();
        let saved = taken.as_ref().ok();
        let decided = Decided {
            place,
            generation: saved.and_then(|saved| saved.generation).map(|generation: GenerationId| generation.number),
            reasons: sentences(&decision.reasons),
            failure: taken.as_ref().err().map(|error| sentence(&error.to_string())).unwrap_or_default(),
            payload_bytes: saved.map_or(0, |saved| saved.payload_bytes),
            node_bytes: situation.size_bytes as u64,
            visible_s: saved.map_or(0.0, |saved| saved.visible_s),
            durable_age_s: plain(situation.since_durable_s).unwrap_or(0.0),
            staleness_max_s: staleness_max_s.and_then(plain),
            durable_bytes: situation.durable_bytes as u64,
            session_s: plain(situation.now_s).unwrap_or(0.0),
            checkpoint_s: plain(situation.checkpoint_s).unwrap_or(0.0),
            budget_bytes_per_s: drive.and_then(|drive| plain(drive.bearable_bytes_per_s(granted_share))),
            endurance_left_bytes: drive
                .and_then(|drive| plain((granted_share * drive.rated_bytes - drive.written_bytes).max(0.0))),
            decided: self.decided.clone(),
        };
        self.append(JournalEvent::Decision(Box::new(decided)));
    }

    /// Writes down what the job was told when it asked, if that is another answer than the last time.
    pub fn answered(&mut self, decision: &Decision, situation: &Situation) {
        if self.directory().is_none() {
            return;
        }
        let Some(asked_count) = self.answers.note(decision, situation.now_s) else { return };
        self.append(JournalEvent::Asked(Box::new(Answered {
            place: place_word(decision.place),
            reasons: sentences(&decision.reasons),
            asked_count,
            durable_age_s: plain(situation.since_durable_s).unwrap_or(0.0),
            session_s: plain(situation.now_s).unwrap_or(0.0),
        })));
    }

    /// Writes down that a checkpoint came to a durable tier, which is not durable where its medium is not known; bytes of all
    /// ranks.
    pub fn arrived(
        &mut self,
        kind: Tier,
        generation: GenerationId,
        [age_s, took_s]: [f64; 2],
        bytes: u64,
        is_durable: Option<bool>,
    ) {
        let (tier, generation) = (kind.as_str().to_owned(), generation.number);
        self.append(JournalEvent::Durable { tier, generation, age_s, took_s, bytes, is_durable });
    }

    /// Writes down that one did not, and why.
    pub fn not_durable(&mut self, kind: Tier, generation: GenerationId, why: &str) {
        let (tier, why) = (kind.as_str().to_owned(), sentence(why));
        self.append(JournalEvent::NotDurable { tier, generation: generation.number, why });
    }

    /// Writes down what a restart came back to; `read_from` is what this rank read last, and where.
    pub fn restarted(&mut self, restored: &Result<Option<Restored>, Error>, read_from: Option<(Tier, GenerationId)>) {
        let mut tier = None;
        let (generation, outcome, report) = match restored {
            Ok(Some(restored)) => {
                let read = read_from.filter(|(_, generation)| *generation == restored.generation);
                tier = read.map(|(kind, _)| kind.as_str().to_owned());
                (Some(restored.generation.number), RestartOutcome::Restored, sentence(&restored.report))
            }
            Ok(None) => (None, RestartOutcome::NoCheckpoint, "there was no checkpoint".to_owned()),
            Err(error) => (None, RestartOutcome::Failed, sentence(&error.to_string())),
        };
        self.append(JournalEvent::Restart { generation, report, outcome: Some(outcome), tier });
    }
}

fn place_word(place: Place) -> String {
    place.label().to_lowercase().replace(' ', "_")
}

/// JSON has no infinity.
fn plain(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn sentences(reasons: &[String]) -> Vec<String> {
    reasons.iter().take(REASONS_MAX).map(|reason| sentence(reason)).collect()
}

fn sentence(text: &str) -> String {
    text.chars().take(SENTENCE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::controller::Surefoot;
    use crate::session::Checkpointer;
    use crate::session::journal::{JOURNAL_NAME, read};
    use crate::{Alone, Config};

    #[test]
    fn a_session_tells_what_it_decides_and_a_journal_that_fails_stops_no_save() {
        let tier = crate::testing::folder();
        for name in ["memory", "ssd"] {
            fs::create_dir(tier.path().join(name)).unwrap();
        }
        let mut config = Config::new("a/job", tier.path().join("memory"), Some(tier.path().join("ssd")));
        config.policy = Policy::Surefoot(Surefoot { staleness_max_s: 0.001, ..Surefoot::default() });
        let directory = tier.path().join("memory/a/job");
        let mut state = vec![1u8; 10_000];
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives `job`, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        job.restart().unwrap();
        let first = job.checkpoint().unwrap();
        job.finish().unwrap();
        let found = read(&directory, 100).unwrap().unwrap();
        let words: Vec<String> = found
            .entries
            .iter()
            .map(|entry| serde_json::to_value(entry).unwrap()["event"].as_str().unwrap().to_owned())
            .collect();
        let JournalEvent::Decision(decided) = &found.entries[2].event else { panic!("{found:#?}") };
        assert_eq!((decided.generation, decided.payload_bytes), (Some(1), 10_000));
        assert!(decided.reasons == first.decision.reasons && !decided.reasons.is_empty());
        assert_eq!(first.decision.place, Place::Both);
        assert_eq!(words, ["opened", "restart", "decision", "durable"]);
        let JournalEvent::Durable { generation, bytes, age_s, .. } = found.entries[3].event else {
            panic!("{found:#?}")
        };
        assert!(generation == 1 && bytes >= 10_000 && age_s >= 0.0);
        // The journal's place is taken by something else: the save goes on, and what was lost is counted.
        fs::remove_file(directory.join(JOURNAL_NAME)).unwrap();
        job.journal.file.as_mut().unwrap().close();
        fs::create_dir(directory.join(JOURNAL_NAME)).unwrap();
        assert!(job.checkpoint().unwrap().generation.is_some());
        assert!(job.journal_lost_count() > 0);
    }

    #[test]
    fn what_the_job_is_told_can_be_looked_up_and_asking_often_fills_no_disk() {
        let tier = crate::testing::folder();
        let mut config = Config::new("job", tier.path(), None);
        config.policy = Policy::Surefoot(Surefoot { soft_failures_per_s: 1e-12, ..Surefoot::default() });
        let directory = tier.path().join("job");
        let mut state = vec![1u8; 10_000];
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives `job`, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        let first = job.need_checkpoint().unwrap();
        assert_eq!(first.place, Place::Memory, "what was never measured costs nothing: {first:?}");
        job.checkpoint().unwrap();
        let told: Vec<Decision> = (0..3_000).map(|_| job.need_checkpoint().unwrap()).collect();
        assert!(told.iter().all(|told| told.place == Place::Skip), "{told:?}");
        job.checkpoint().unwrap();
        let found = read(&directory, usize::MAX).unwrap().unwrap();
        let events: Vec<&JournalEvent> = found.entries.iter().skip(1).map(|entry| &entry.event).collect();
        let [JournalEvent::Asked(due), JournalEvent::Decision(_), JournalEvent::Asked(skip), JournalEvent::Decision(_)] =
            events[..]
        else {
            panic!("{events:#?}")
        };
        assert_eq!((due.place.as_str(), &due.reasons, due.asked_count), ("memory", &first.reasons, 1));
        assert_eq!((skip.place.as_str(), &skip.reasons, skip.asked_count), ("skip", &told[0].reasons, 1));
        // The next other answer says how often it was asked since.
        let other = Decision { place: Place::Both, reasons: vec!["another reason".into()], is_refused: false };
        let situation = job.schedule.asked.pop().unwrap();
        job.journal.answered(&other, &situation);
        let found = read(&directory, usize::MAX).unwrap().unwrap();
        let JournalEvent::Asked(last) = &found.entries.last().unwrap().event else { panic!("{found:#?}") };
        assert_eq!((last.place.as_str(), last.asked_count), ("memory_and_ssd", 3_000));
        assert_eq!(last.session_s, situation.now_s);
    }
}
