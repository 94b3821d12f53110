//! The answer of `/api/v1/disturb`: the experiments, and one of them with its runs and stalls.

use super::predictions::PredictionView;
use super::stalls::CoreStalls;
use super::state::{Experiment, State};
use crate::answer::{Header, Limited};
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_model::{ExperimentBegan, ExperimentEnded, ExperimentRow, ExperimentRun, InjectedStall, did_you_mean};

/// Characters of a name that an error repeats.
const NAME_CHARACTERS_MAX: usize = 100;
/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Everything about experiments at one moment.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Disturb")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    pub header: Header,
    /// When the newest look at the journals began, `CLOCK_REALTIME`; `null` where there was none.
    pub looked_realtime_ns: Option<u64>,
    /// The experiments, the newest first.
    pub experiments: Vec<ExperimentView>,
    /// Experiments beyond those.
    pub experiments_left_out: u64,
    /// What could not be read.
    pub problems: Vec<String>,
    /// Problems beyond those.
    pub problems_left_out: u64,
    /// The one that was asked for.
    #[schemars(with = "DetailView")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<DetailView>,
    /// Predictions from the files that were named.
    pub predictions: Vec<PredictionView>,
    /// Predictions beyond those.
    pub predictions_left_out: u64,
}

/// One experiment in short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ExperimentView {
    /// What is done, and to what; of another user's the workload is empty.
    #[serde(flatten)]
    pub began: ExperimentBegan,
    /// What it does, a part of a sentence.
    pub what: String,
    /// `running`, `finished`, `refused`, `failed` or `vanished`.
    pub standing: &'static str,
    /// Runs that are complete.
    pub runs_done: u64,
    /// How it ended; `null` while it runs.
    pub ended: Option<ExperimentEnded>,
}

/// One experiment with all that is kept of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DetailView {
    /// Its name.
    pub experiment: String,
    /// What the numbers of one with several workloads or disturbances came to.
    pub rows: Vec<ExperimentRow>,
    /// Rows beyond those.
    pub rows_left_out: u64,
    /// In their order.
    pub runs: Vec<ExperimentRun>,
    /// Runs beyond those.
    pub runs_left_out: u64,
    /// Core by core, of all stalls that are kept; none where several disturbances took turns, whose rows tell of them.
    pub cores: Vec<CoreStalls>,
    /// Cores beyond those.
    pub cores_left_out: u64,
    /// In the order of their runs.
    pub stalls: Vec<InjectedStall>,
    /// Stalls beyond those.
    pub stalls_left_out: u64,
}

/// No experiment of this name is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no experiment '{name}' is kept; see experiments{meant}")]
pub struct NotKept {
    name: String,
    /// A name that is kept and much alike, in words.
    meant: String,
}

impl Answer {
    /// The answer of what is known, with one experiment in detail where one is wanted.
    ///
    /// # Errors
    /// When that one is not kept.
    pub fn of(state: &State, wanted: Option<&str>, why: Option<String>) -> Result<Self, NotKept> {
        let none = |name: &str| NotKept {
            name: name.chars().take(NAME_CHARACTERS_MAX).collect(),
            meant: did_you_mean(name, state.experiments().map(|one| one.began.experiment.as_str())),
        };
        let find = |name: &str| state.experiment(name).ok_or_else(|| none(name));
        let wanted = wanted.map(find).transpose()?;
        Ok(Answer { detail: wanted.map(DetailView::of), ..Answer::list(state, why) })
    }

    fn list(state: &State, why: Option<String>) -> Self {
        let look = state.look.clone().unwrap_or_default();
        Answer {
            header: Header::new(why),
            looked_realtime_ns: state.look.as_ref().map(|look| look.looked_realtime_ns),
            experiments: state.experiments().rev().map(ExperimentView::of).collect(),
            experiments_left_out: state.dropped.saturating_add(look.left_out_count),
            problems: look.problems,
            problems_left_out: look.problems_left_out,
            detail: None,
            predictions: Vec::new(),
            predictions_left_out: 0,
        }
    }

    /// The answer of a recording or of a run that is over, as of its end.
    pub fn at_end(state: &State) -> Self {
        Answer::list(state, None)
    }

    /// The same, where so many experiments were not asked for.
    #[must_use]
    pub fn without(mut self, count: usize) -> Self {
        self.experiments_left_out = self.experiments_left_out.saturating_add(count as u64);
        self
    }

    /// Leaves half of what is long out.
    pub fn cut(&mut self) {
        if let Some(detail) = &mut self.detail {
            Limited(&mut detail.stalls, &mut detail.stalls_left_out).halve();
            Limited(&mut detail.runs, &mut detail.runs_left_out).halve();
            Limited(&mut detail.rows, &mut detail.rows_left_out).halve();
            Limited(&mut detail.cores, &mut detail.cores_left_out).halve();
        }
        Limited(&mut self.problems, &mut self.problems_left_out).halve();
        Limited(&mut self.predictions, &mut self.predictions_left_out).halve();
        // The newest are first.
        Limited(&mut self.experiments, &mut self.experiments_left_out).halve();
    }
}

impl ExperimentView {
    /// One in short.
    pub fn of(one: &Experiment) -> Self {
        ExperimentView {
            began: one.began.clone(),
            what: one.began.what(),
            standing: one.standing(),
            runs_done: one.runs_done(),
            ended: one.ended.clone(),
        }
    }
}

impl DetailView {
    /// One with all that is kept.
    pub fn of(one: &Experiment) -> Self {
        DetailView {
            experiment: one.began.experiment.clone(),
            rows: one.rows.clone(),
            rows_left_out: one.rows_left_out,
            runs: one.runs.clone(),
            runs_left_out: one.runs_left_out,
            cores: one.stalls_by_core(),
            cores_left_out: 0,
            stalls: one.stalls.clone(),
            stalls_left_out: one.stalls_left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::state::tests::{folded, told};
    use super::*;
    use crate::answer::within;
    use surefoot_model::ExperimentOutcome::{Failed, Finished};

    #[test]
    fn the_newest_is_first_and_the_one_that_is_asked_for_has_its_runs() {
        let state = folded(&[told("a", Some(Finished)), told("b", Some(Failed)), told("c", None)].concat());
        let answer = Answer::of(&state, Some("a"), None).unwrap();
        let standings: Vec<&str> = answer.experiments.iter().map(|one| one.standing).collect();
        assert_eq!(standings, ["running", "failed", "finished"]);
        let detail = answer.detail.unwrap();
        assert_eq!((detail.runs.len(), detail.stalls.len(), detail.cores[0].length_median_ns), (1, 2, 2_000_100));
        assert!(Answer::of(&state, None, None).unwrap().detail.is_none());
        let none = Answer::of(&state, Some("d"), None).unwrap_err();
        assert!(none.to_string().contains("no experiment 'd' is kept"), "{none:?}");
        let state = folded(&[told("stream-mlc", Some(Finished)), told("stream", None)].concat());
        let none = Answer::of(&state, Some("stream-mcl"), None).unwrap_err();
        assert!(none.to_string().contains("did you mean 'stream-mlc'?"), "{none:?}");
    }

    #[test]
    fn an_answer_that_is_too_long_is_cut_and_says_by_how_much() {
        let state = folded(&told("a", Some(Finished)));
        let mut answer = Answer::of(&state, Some("a"), None).unwrap();
        let detail = answer.detail.as_mut().unwrap();
        detail.stalls = vec![detail.stalls[0]; 100_000];
        let body = within(ANSWER_BYTES_MAX, answer, |answer| serde_json::to_vec(answer).unwrap(), Answer::cut);
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let kept = read["detail"]["stalls"].as_array().unwrap().len() as u64;
        assert!(body.len() <= ANSWER_BYTES_MAX && kept > 0);
        assert_eq!(read["detail"]["stalls_left_out"], 100_000 - kept + 1);
        // What a stranger's recording says may be long, too.
        let words = "x".repeat(ANSWER_BYTES_MAX / 4);
        let row = ExperimentRow { ours: words, ..ExperimentRow::default() };
        let mut answer = Answer::of(&state, Some("a"), None).unwrap();
        answer.detail.as_mut().unwrap().rows = vec![row; 10];
        let body = within(ANSWER_BYTES_MAX, answer, |answer| serde_json::to_vec(answer).unwrap(), Answer::cut);
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(read["detail"]["rows_left_out"].as_u64().unwrap() >= 5 && body.len() <= ANSWER_BYTES_MAX);
        // The one core has gone with the rows.
        assert_eq!((&read["detail"]["cores"], &read["detail"]["cores_left_out"]), (&serde_json::json!([]), &1.into()));
    }
}
