//! The answer of `/api/v1/nic/movie`: one fault, replayed. A replay is virtual time with an end, and so takes a bounded
//! time; one goes on at a time, and the newest answers are kept.

use axum::body::Bytes;
use axum::http::StatusCode;
use std::collections::VecDeque;
use std::sync::{Mutex, TryLockError};
use surefoot_http::lock;
use surefoot_http::{ApiError, json_text};
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::movie::Movie;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::{CampaignError, Experiment, FaultId};
use surefoot_rooms::nic::campaign::movie::{MovieAnswer, wanted};

/// Scenes of an answer; more are counted.
const SCENES_SHOWN: usize = 200;
/// Answers that are kept.
const KEPT_MAX: usize = 8;

/// Where faults are replayed.
#[derive(Debug, Default)]
pub(crate) struct Movies {
    experiments: Vec<Experiment>,
    /// Held by the one replay that goes on.
    turn: Mutex<()>,
    /// Ids and their answers, the newest last.
    kept: Mutex<VecDeque<(FaultId, Bytes)>>,
}

impl Movies {
    pub(crate) fn new(experiments: &[Experiment]) -> Self {
        Movies { experiments: experiments.to_vec(), ..Movies::default() }
    }

    /// The movie of the fault with this id.
    ///
    /// # Errors
    /// When it is no id, or of nothing that can be replayed here, and while another one is replayed.
    pub(crate) fn answer(&self, id: &str) -> Result<Bytes, ApiError> {
        let (id, experiment) = wanted(id, &self.experiments).map_err(ApiError::bad_request)?;
        if let Some(known) = self.known(&id) {
            return Ok(known);
        }
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            // A replay that broke off has left nothing behind: each begins anew.
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let busy = "another fault is being replayed, which takes a second or two; ask again then";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, busy));
            }
        };
        let movie = replay(&id, &experiment).map_err(refused)?;
        let answer = json_text(&MovieAnswer::of(&movie));
        let mut kept = lock(&self.kept);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((id, answer.clone()));
        Ok(answer)
    }

    fn known(&self, id: &FaultId) -> Option<Bytes> {
        lock(&self.kept).iter().find(|(known, _)| known == id).map(|(_, answer)| answer.clone())
    }
}

fn replay(id: &FaultId, experiment: &Experiment) -> Result<Movie, CampaignError> {
    let golden = Golden::run(experiment, id.seed)?;
    Lab::new(golden).movie(&id.fault, SCENES_SHOWN)
}

fn refused(error: CampaignError) -> ApiError {
    match error {
        CampaignError::Setup(_) => ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        _ => ApiError::bad_request(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::Value;
    use surefoot_nic::campaign::Preset;

    /// A bit of `send_chunk_normal_low` that makes the interface hang, found by running the preset.
    fn some_fault() -> String {
        let mut experiment = Experiment::preset(Preset::SendChunk);
        experiment.build = surefoot_nic::firmware::Build::Tolerant;
        let golden = Golden::run(&experiment, 1).unwrap();
        let faults = experiment.faults(golden.firmware(), golden.window(), Some(60), 1).unwrap();
        let mut lab = Lab::new(golden);
        let detected = |fault| {
            let record = lab.record(fault).unwrap();
            record.detection.map(|_| record.id.to_string())
        };
        faults.iter().find_map(detected).unwrap()
    }

    #[test]
    fn a_movie_goes_from_the_flip_to_the_recovery_and_is_the_same_again() {
        let id = some_fault();
        let movies = Movies::default();
        let answer = movies.answer(&id).unwrap();
        let movie: Value = serde_json::from_slice(&answer).unwrap();
        let scenes = movie["scenes"].as_array().unwrap();
        let first = |word: &str, is: &str| scenes.iter().position(|scene| scene[word] == is);
        let (struck, detected) = (first("scene", "struck").unwrap(), first("step", "detected").unwrap());
        let recovered = first("step", "recovered").unwrap();
        assert!(struck < detected && detected < recovered, "{scenes:#?}");
        assert_eq!(movie["fault"]["id"], *id);
        assert_eq!(scenes.last().unwrap()["scene"], "ended");
        assert_eq!(Movies::default().answer(&id).unwrap(), answer, "another replay gives the same bytes");
    }

    #[test]
    fn one_fault_is_replayed_at_a_time_and_what_is_known_is_told_all_the_same() {
        let id = some_fault();
        let movies = Movies::default();
        movies.answer(&id).unwrap();
        let _turn = movies.turn.lock().unwrap();
        movies.answer(&id).unwrap();
        let other = id.replace(":tolerant:", ":detecting:");
        let error = format!("{:?}", movies.answer(&other).unwrap_err());
        assert!(error.contains("503") && error.contains("another fault is being replayed"), "{error}");
    }

    #[test]
    fn what_cannot_be_replayed_says_why() {
        let long = format!("send-chunk:tolerant:1:code:0x10:5@{}", "1".repeat(300));
        for (id, why) in [
            ("", "the form is"),
            (&long, "at most 300"),
            ("mine:tolerant:1:code:0x10:5@1", "--nic-experiment"),
            ("send-chunk:tolerant:1:code:0xfffffff0:5@1", ""),
            ("send-chunk:tolerant:1:code:0x10:5@18446744073709551615", "no run has"),
        ] {
            let error = format!("{:?}", Movies::default().answer(id).unwrap_err());
            assert!(error.contains("400") && error.contains(why), "{id}: {error}");
        }
    }
}
