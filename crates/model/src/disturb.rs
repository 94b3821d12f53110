//! Experiments that disturb a host and measure what that does to a workload: as their journals say it line by line, and as
//! recordings and the page have it.

use crate::{
    Actor, CpuId, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Happened, HappenedBody, Observed, Room,
    Subject, SubjectKind, Withheld,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A stall that was injected, by the injector's own clock reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct InjectedStall {
    /// The run that it touched.
    pub run: u64,
    /// `null` where the workload was stopped, wherever it ran.
    pub core: Option<CpuId>,
    /// `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How long it lasted.
    pub length_ns: u64,
    /// When it was to begin.
    pub target_ns: u64,
}

/// A run that is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ExperimentRun {
    /// From 0.
    pub run: u64,
    /// The pair that it belongs to; that to warm up belongs to none.
    pub repetition: Option<u64>,
    /// `warm_up`, `undisturbed` or `disturbed`.
    pub condition: String,
    /// The metric; nanoseconds for the wall time.
    pub value: f64,
    /// `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// How long it took.
    pub wall_ns: u64,
    /// Stalls that touched it; of a disturbance at a rate, the interrupts or packets.
    pub stall_count: u64,
    /// The share of its time that the disturbed cores stood still.
    pub injected_share: f64,
    /// Stalls whose end had passed before they could begin.
    pub missed_stalls: u64,
    /// Stalls that happened and whose record was lost.
    pub dropped_stalls: u64,
    /// Stalls that ended before their time.
    pub cut_stalls: u64,
    /// Processes that the workload left behind and that were ended.
    pub left_behind: u64,
    /// Output beyond what is kept.
    pub dropped_bytes: u64,
    /// The load of the machine before it, over one minute.
    pub load: Option<f64>,
    /// Which of several workloads it is of; empty where there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Which of several disturbances it had; empty where there is one, and of an undisturbed run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub treatment: String,
}

/// One number of one workload under one disturbance, of an experiment with several of them; or one of those that were published,
/// beside what was found here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ExperimentRow {
    /// The workload's name; of what was published, the table.
    pub case: String,
    /// The disturbance's name; empty of what was published.
    pub treatment: String,
    /// What the number is called; of what was published, the row.
    pub measure: String,
    /// `ratio` (disturbed over undisturbed) or `difference` (disturbed less undisturbed).
    pub compared: String,
    /// Repetitions that have both runs.
    pub pairs: u64,
    /// The undisturbed runs' median; `None` where none is complete.
    pub undisturbed_median: Option<f64>,
    /// The disturbed runs' median.
    pub disturbed_median: Option<f64>,
    /// The ratio or the difference; `None` where there is none.
    pub effect: Option<f64>,
    /// Where the true one lies.
    pub interval_low: Option<f64>,
    /// Where the true one lies.
    pub interval_high: Option<f64>,
    /// Whether an effect is shown.
    pub effect_shown: bool,
    /// The share of the disturbed runs' time that the disturbed cores stood still.
    pub injected_share: f64,
    /// Stalls that touched these runs.
    #[serde(default)]
    pub stall_count: u64,
    /// Median over these stalls: the end less the time that it was to be.
    #[serde(default)]
    pub end_late_median_ns: Option<i64>,
    /// What was published, and where; empty where nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub published: String,
    /// What was found here, in words; empty where the numbers say it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ours: String,
    /// Where this emulation is expected to differ from what was published.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected_to_differ: String,
    /// The verdict in words, those of a model apart from those of a measurement; empty where nothing was published.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// `measured`, `simulated` or `fitted`; empty where nothing was published.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The rule of the verdict in words; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// Why there is no number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What all pairs of runs come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ExperimentEffect {
    /// The metric disturbed over undisturbed: the Hodges-Lehmann estimate over the pairs.
    pub ratio: f64,
    /// Of the signed-rank interval, which holds the true ratio as often as `confidence` says.
    pub interval_low: f64,
    /// Its other end.
    pub interval_high: f64,
    /// 0.95 or more from 6 pairs on.
    pub confidence: f64,
    /// The interval excludes 1.
    pub effect_shown: bool,
    /// The least ratio above 1, and its reciprocal below, that four of five experiments like this one would show.
    pub minimum_detectable_ratio: f64,
    /// The share of the disturbed runs' time that the disturbed cores stood still, by what the injector did.
    pub injected_share: f64,
    /// All stalls that touched a run.
    pub stall_count: u64,
    /// As of a run.
    pub missed_stalls: u64,
    /// As of a run.
    pub dropped_stalls: u64,
    /// As of a run.
    pub cut_stalls: u64,
    /// Median over all stalls: the start less the time that it was to be.
    pub start_late_median_ns: Option<i64>,
    /// Median over all stalls: the end less the time that it was to be.
    pub end_late_median_ns: Option<i64>,
    /// Nine of ten ended no later than this.
    pub end_late_p90_ns: Option<i64>,
    /// Median: how far the starts of cores lie apart that were to stop at the same moment.
    pub start_skew_median_ns: Option<i64>,
    /// And their ends.
    pub end_skew_median_ns: Option<i64>,
    /// The runs that lie far from the others of their kind, by number; they count all the same.
    pub outlier_runs: Vec<u64>,
    /// How it was done.
    pub method: String,
    /// What that really does.
    pub method_words: String,
    /// The cores that were disturbed; none where the workload or a guest was.
    pub cores: Vec<CpuId>,
    /// Of each stall; 0 where they come at a rate.
    pub length_ns: u64,
    /// From the start of one to the start of the next.
    pub period_ns: u64,
    /// The command.
    pub workload: String,
    /// The number that a run comes to.
    pub metric: String,
    /// Pairs of runs.
    pub repetitions: u64,
    /// Of the order of the runs and of the moments of the stalls.
    pub seed: u64,
    /// The undisturbed runs' median.
    pub undisturbed_median: f64,
    /// The disturbed runs' median.
    pub disturbed_median: f64,
    /// What was counted beside it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What to keep in mind.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// An experiment that begins, or that was refused before it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ExperimentBegan {
    /// Its name, which no other one of this host has.
    pub experiment: String,
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// Its process.
    pub pid: u32,
    /// Whose it is; `None` where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The file or preset that it does, or of which it is a part; empty where it is one workload under one disturbance.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub series: String,
    /// Its name within that; empty where it is the whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// `freeze`, `ipi` and so on; `several` where they take turns.
    pub disturbance: String,
    /// How it is done; empty before that is known.
    pub method: String,
    /// Whether cores are disturbed, for everybody, and not the workload alone.
    pub is_of_cores: bool,
    /// Which ones.
    pub cores: Vec<CpuId>,
    /// Of each stall; 0 where they come at a rate.
    pub length_ns: u64,
    /// From the start of one to the start of the next; 0 where several disturbances take turns.
    pub period_ns: u64,
    /// `same` where all cores stop at once, else `staggered` or `random`; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The command; of several workloads their names.
    pub workload: String,
    /// The number that a run comes to; empty where these are several.
    pub metric: String,
    /// Runs that there will be, that to warm up among them.
    pub run_count: u64,
}

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExperimentOutcome {
    /// With an effect.
    Finished,
    /// Before anything was done.
    Refused,
    /// A run failed, took too long or had no metric.
    Failed,
    /// Its process was gone and had not said how it ended.
    Vanished,
}

impl ExperimentOutcome {
    /// Every outcome.
    pub const ALL: [ExperimentOutcome; 4] = [
        ExperimentOutcome::Finished,
        ExperimentOutcome::Refused,
        ExperimentOutcome::Failed,
        ExperimentOutcome::Vanished,
    ];

    /// The name in JSON and metrics, which is also the word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            ExperimentOutcome::Finished => "finished",
            ExperimentOutcome::Refused => "refused",
            ExperimentOutcome::Failed => "failed",
            ExperimentOutcome::Vanished => "vanished",
        }
    }
}

/// The end of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ExperimentEnded {
    /// Which.
    pub experiment: String,
    /// When, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When, `CLOCK_REALTIME`.
    pub at_realtime_ns: u64,
    /// How.
    pub outcome: ExperimentOutcome,
    /// Why; empty where it finished.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What it came to, where it finished and is one workload under one disturbance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Box<ExperimentEffect>>,
    /// What one with several of them came to, in a few words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// What to keep in mind of one with several of them; an effect has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The frame of one look at the journals of experiments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct ExperimentLook {
    /// When it ended, `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// When it began, `CLOCK_REALTIME`.
    pub looked_realtime_ns: u64,
    /// How long it took.
    pub look_ns: u64,
    /// Where the journals lie.
    pub directories: Vec<String>,
    /// Directories that were to be looked into and could not be; the first problems say why.
    #[serde(default)]
    pub directories_unread: u64,
    /// Journals beyond those that are read.
    pub left_out_count: u64,
    /// What could not be read or understood, a sentence each.
    pub problems: Vec<String>,
    /// Problems beyond those.
    pub problems_left_out: u64,
}

/// What is said of experiments. A journal has no `look`, `gone` or `left_out` line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "seen", rename_all = "snake_case")]
pub enum DisturbEvent {
    /// A look at the journals has ended; replaces the one before.
    Look(ExperimentLook),
    /// An experiment begins.
    Began(Box<ExperimentBegan>),
    /// Stalls of the run that is told of next.
    Stalls {
        /// The experiment.
        experiment: String,
        /// In the order of their start.
        stalls: Vec<InjectedStall>,
        /// Stalls of that run beyond those.
        left_out_count: u64,
    },
    /// A run is complete.
    Run {
        /// The experiment.
        experiment: String,
        /// The run.
        run: Box<ExperimentRun>,
    },
    /// What one number of an experiment with several workloads or disturbances came to.
    Row {
        /// The experiment.
        experiment: String,
        /// The number.
        row: Box<ExperimentRow>,
    },
    /// An experiment has ended.
    Ended(ExperimentEnded),
    /// The journal of an experiment is gone.
    Gone {
        /// The experiment.
        experiment: String,
    },
    /// The journal of an experiment is no longer read, because others took its room.
    LeftOut {
        /// The experiment.
        experiment: String,
    },
}

impl DisturbEvent {
    /// The experiment that it is of.
    pub fn experiment(&self) -> Option<&str> {
        match self {
            DisturbEvent::Look(_) => None,
            DisturbEvent::Began(began) => Some(&began.experiment),
            DisturbEvent::Ended(ended) => Some(&ended.experiment),
            DisturbEvent::Stalls { experiment, .. }
            | DisturbEvent::Run { experiment, .. }
            | DisturbEvent::Row { experiment, .. }
            | DisturbEvent::Gone { experiment }
            | DisturbEvent::LeftOut { experiment } => Some(experiment),
        }
    }

    /// The beginning or the end of an experiment as a deed.
    pub fn deed(&self) -> Option<Deed> {
        let of = |experiment: &str, at_realtime_ns, actor, outcome| Deed {
            at_realtime_ns,
            begun_realtime_ns: at_realtime_ns,
            room: Room::Disturb,
            subject: Subject::new(SubjectKind::Experiment, experiment),
            actor,
            action: DeedAction::Experiment,
            target: DeedTarget::Subject,
            reason: DeedReason::Asked,
            outcome,
        };
        match self {
            DisturbEvent::Began(began) => {
                let actor = began.uid.map_or(Actor::Unknown, |uid| Actor::Command { uid });
                Some(of(&began.experiment, began.at_realtime_ns, actor, DeedOutcome::Begun))
            }
            DisturbEvent::Ended(ended) => {
                let why = ended.why.clone();
                let outcome = match ended.outcome {
                    ExperimentOutcome::Finished => DeedOutcome::Done { observed: Observed::Measured },
                    ExperimentOutcome::Refused => DeedOutcome::Withheld { why: Withheld::Refused { why } },
                    ExperimentOutcome::Failed => DeedOutcome::Failed { error: why },
                    ExperimentOutcome::Vanished => DeedOutcome::InDoubt { error: why },
                };
                Some(of(&ended.experiment, ended.at_realtime_ns, Actor::Unknown, outcome))
            }
            _ => None,
        }
    }

    /// See [`crate::Event::comes_to_ns`].
    pub(crate) fn comes_to_ns(&self) -> Option<u64> {
        match self {
            DisturbEvent::Look(look) => Some(look.at_ns),
            DisturbEvent::Began(began) => Some(began.at_ns),
            DisturbEvent::Run { run, .. } => Some(run.start_ns.saturating_add(run.wall_ns)),
            DisturbEvent::Ended(ended) => Some(ended.at_ns),
            DisturbEvent::Stalls { .. }
            | DisturbEvent::Row { .. }
            | DisturbEvent::Gone { .. }
            | DisturbEvent::LeftOut { .. } => None,
        }
    }

    /// See [`crate::Event::held_bytes`].
    pub(crate) fn held_bytes(&self) -> usize {
        self.experiment().map_or(0, str::len)
            + match self {
                DisturbEvent::Look(look) => texts(&look.problems) + texts(&look.directories),
                DisturbEvent::Began(began) => {
                    size_of::<ExperimentBegan>()
                        + began.workload.len()
                        + began.series.len()
                        + began.part.len()
                        + began.phase.len()
                        + size_of_val(began.cores.as_slice())
                }
                DisturbEvent::Stalls { stalls, .. } => size_of_val(stalls.as_slice()),
                DisturbEvent::Run { run, .. } => size_of::<ExperimentRun>() + run.case.len() + run.treatment.len(),
                DisturbEvent::Row { row, .. } => row.held_bytes(),
                DisturbEvent::Ended(ended) => {
                    ended.why.len()
                        + ended.summary.len()
                        + texts(&ended.warnings)
                        + ended.effect.as_ref().map_or(0, |effect| effect.held_bytes())
                }
                DisturbEvent::Gone { .. } | DisturbEvent::LeftOut { .. } => 0,
            }
    }

    /// See [`crate::Event::takes_cores`].
    pub(crate) fn takes_cores(&self) -> Option<CoresTaken> {
        match self {
            DisturbEvent::Began(began) if began.is_of_cores => Some(CoresTaken {
                by: began.experiment.clone(),
                what: began.what_for_everybody(),
                uid: began.stranger(),
                is_over: false,
            }),
            // What is not read any more claims no cores.
            DisturbEvent::Ended(ExperimentEnded { experiment, .. })
            | DisturbEvent::Gone { experiment }
            | DisturbEvent::LeftOut { experiment } => {
                Some(CoresTaken { by: experiment.clone(), what: String::new(), uid: None, is_over: true })
            }
            _ => None,
        }
    }

    /// That an experiment began and how it ended is kept; see [`crate::Event::happened`].
    pub(crate) fn happened(&self) -> Vec<Happened<'_>> {
        let of = |kind, experiment: &String, at_realtime_ns, body| {
            let subject = Subject::new(SubjectKind::Experiment, experiment.clone());
            vec![Happened { room: Room::Disturb, kind, subject, at_realtime_ns, body }]
        };
        match self {
            DisturbEvent::Began(began) => {
                let body = HappenedBody::ExperimentBegan(began);
                of("experiment_began", &began.experiment, began.at_realtime_ns, body)
            }
            DisturbEvent::Ended(ended) => {
                let body = HappenedBody::ExperimentEnded(ended);
                of("experiment_ended", &ended.experiment, ended.at_realtime_ns, body)
            }
            _ => Vec::new(),
        }
    }
}

/// Something of Surefoot's own that takes time from cores on purpose, which explains what is lost there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoresTaken {
    /// A name for it, until it is over.
    pub by: String,
    /// What it does, a part of a sentence without words of a user other than root; empty once it is over.
    pub what: String,
    /// The user whose journal says so; `None` for root's, which are the host's own.
    pub uid: Option<u32>,
    /// Whether it has ended.
    pub is_over: bool,
}

impl ExperimentBegan {
    /// Where root's journals lie. An experiment holds the lock of its own as long as it runs.
    pub const DIRECTORY: &str = "/run/surefoot/experiments";
    /// The last part of a journal's name.
    const ENDING: &str = ".jsonl";
    /// Letters of an experiment's name.
    const NAME_LETTERS_MAX: usize = 64;
    /// No journal is longer.
    pub const JOURNAL_BYTES_MAX: u64 = 2 << 20;

    /// The file name of the journal of an experiment.
    pub fn journal(experiment: &str) -> String {
        format!("{experiment}{}", Self::ENDING)
    }

    /// The experiment of which this is the journal; `None` where no journal has such a name.
    pub fn name_of(path: &Path) -> Option<&str> {
        let name = path.file_name()?.to_str()?.strip_suffix(Self::ENDING)?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let is_name = (1..=Self::NAME_LETTERS_MAX).contains(&name.len()) && name.chars().all(is_plain);
        is_name.then_some(name)
    }

    /// The user whose word it is, unless that is root's or a recording does not say: everybody can write a journal.
    pub fn stranger(&self) -> Option<u32> {
        self.uid.filter(|uid| *uid != 0)
    }

    /// As [`ExperimentBegan::what`], from numbers alone where a user other than root wrote the words.
    pub fn what_for_everybody(&self) -> String {
        match self.stranger() {
            Some(_) if !self.disturbance.is_empty() => {
                ExperimentBegan { disturbance: "a disturbance".into(), ..self.clone() }.what()
            }
            _ => self.what(),
        }
    }

    /// What it does to the cores, as a part of a sentence: `holds cores 0-1 for 2 ms every 1 s, each at a random time`.
    pub fn what(&self) -> String {
        let of = match self.cores.as_slice() {
            _ if !self.is_of_cores => "the workload alone".to_owned(),
            [] => "all cores".to_owned(),
            [one] => format!("core {one}"),
            many => format!("cores {}", ranges(many)),
        };
        if self.period_ns == 0 && self.disturbance.is_empty() {
            "does what its lines do not tell".to_owned()
        } else if self.period_ns == 0 {
            format!("disturbs {of} in several ways, by turns")
        } else if self.length_ns == 0 {
            let rate = 1e9 / self.period_ns.max(1) as f64;
            format!("disturbs {of} by {} {rate:.0} times a second", self.disturbance)
        } else {
            let phase = match self.phase.as_str() {
                _ if !self.is_of_cores || self.cores.len() == 1 => "",
                "random" => ", each at a random time",
                "staggered" => ", one after the other",
                _ => "",
            };
            format!("holds {of} for {} every {}{phase}", time_words(self.length_ns), time_words(self.period_ns))
        }
    }
}

impl ExperimentEnded {
    /// One that has nothing to tell but how and why; the moments are `CLOCK_MONOTONIC` and `CLOCK_REALTIME`.
    pub fn new(
        experiment: String,
        (at_ns, at_realtime_ns): (u64, u64),
        outcome: ExperimentOutcome,
        why: String,
    ) -> Self {
        let (summary, warnings) = (String::new(), Vec::new());
        ExperimentEnded { experiment, at_ns, at_realtime_ns, outcome, why, effect: None, summary, warnings }
    }
}

impl ExperimentRow {
    /// Its texts, for whoever has to make a stranger's words safe.
    pub fn texts_mut(&mut self) -> [&mut String; 11] {
        let ExperimentRow {
            case,
            treatment,
            measure,
            compared,
            published,
            ours,
            expected_to_differ,
            verdict,
            evidence,
            rule,
            why,
            ..
        } = self;
        [case, treatment, measure, compared, published, ours, expected_to_differ, verdict, evidence, rule, why]
    }

    fn held_bytes(&self) -> usize {
        let texts = [&self.case, &self.treatment, &self.measure, &self.compared, &self.published];
        let more = [&self.ours, &self.expected_to_differ, &self.verdict, &self.evidence, &self.rule, &self.why];
        size_of::<ExperimentRow>() + texts.into_iter().chain(more).map(String::len).sum::<usize>()
    }
}

impl ExperimentEffect {
    fn held_bytes(&self) -> usize {
        size_of::<ExperimentEffect>()
            + self.workload.len()
            + self.metric.len()
            + self.method_words.len()
            + texts(&self.warnings)
            + texts(&self.notes)
            + size_of_val(self.cores.as_slice())
            + size_of_val(self.outlier_runs.as_slice())
    }
}

fn texts(lines: &[String]) -> usize {
    size_of_val(lines) + lines.iter().map(String::len).sum::<usize>()
}

/// Cores as the kernel lists them: `0-2,5`.
fn ranges(cores: &[CpuId]) -> String {
    let mut numbers: Vec<u32> = cores.iter().map(|core| core.0).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let word = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    parts.iter().map(word).collect::<Vec<_>>().join(",")
}

/// A time that somebody wrote, in the unit in which it is short: `2 ms`, `1.5 s`.
pub fn time_words(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let (unit, name) = units.into_iter().find(|(unit, _)| ns >= *unit).unwrap_or((1, "ns"));
    format!("{} {name}", ns as f64 / unit as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn began() -> ExperimentBegan {
        ExperimentBegan {
            experiment: "a-1".into(),
            at_ns: 5,
            at_realtime_ns: 6,
            disturbance: "freeze".into(),
            is_of_cores: true,
            cores: [0, 1, 2, 7].map(CpuId).into(),
            length_ns: 2_000_000,
            period_ns: 1_500_000_000,
            ..ExperimentBegan::default()
        }
    }

    #[test]
    fn cores_that_do_not_stop_at_once_are_told_of() {
        let of = |phase: &str, cores: &[CpuId]| {
            ExperimentBegan { phase: phase.into(), cores: cores.into(), ..began() }.what()
        };
        assert_eq!(of("random", &[]), "holds all cores for 2 ms every 1.5 s, each at a random time");
        let two = [CpuId(0), CpuId(1)];
        assert_eq!(of("staggered", &two), "holds cores 0-1 for 2 ms every 1.5 s, one after the other");
        for at_once in [of("same", &two), of("", &two)] {
            assert_eq!(at_once, "holds cores 0-1 for 2 ms every 1.5 s");
        }
        assert_eq!(of("random", &two[..1]), "holds core 0 for 2 ms every 1.5 s");
    }

    #[test]
    fn what_is_done_is_said_with_its_cores_and_times() {
        assert_eq!(began().what(), "holds cores 0-2,7 for 2 ms every 1.5 s");
        let rated = ExperimentBegan {
            disturbance: "ipi".into(),
            length_ns: 0,
            period_ns: 1_000_000,
            cores: vec![CpuId(3)],
            ..began()
        };
        assert_eq!(rated.what(), "disturbs core 3 by ipi 1000 times a second");
        assert_eq!(ExperimentBegan::default().what(), "does what its lines do not tell");
        let forged = ExperimentBegan { uid: Some(1000), disturbance: "send money".into(), ..rated.clone() };
        assert_eq!(forged.what_for_everybody(), "disturbs core 3 by a disturbance 1000 times a second");
        assert_eq!(rated.what_for_everybody(), rated.what());
        let several = ExperimentBegan { period_ns: 0, ..rated };
        assert_eq!(several.what(), "disturbs core 3 in several ways, by turns");
        assert_eq!(
            ExperimentBegan { is_of_cores: false, ..began() }.what(),
            "holds the workload alone for 2 ms every 1.5 s"
        );
    }

    #[test]
    fn that_it_began_and_how_it_ended_happened_and_looks_and_runs_did_not() {
        let event = DisturbEvent::Began(began().into());
        let happened = event.happened();
        assert_eq!((happened[0].kind, happened[0].at_realtime_ns), ("experiment_began", 6));
        assert_eq!(happened[0].subject, Subject::new(SubjectKind::Experiment, "a-1"));
        let taken = event.takes_cores().unwrap();
        assert!(!taken.is_over && taken.what.starts_with("holds cores"), "{taken:?}");
        let (experiment, why) = ("a-1".to_owned(), "no".to_owned());
        let outcome = ExperimentOutcome::Refused;
        let ended = ExperimentEnded::new(experiment, (7, 8), outcome, why);
        let event = DisturbEvent::Ended(ended);
        assert_eq!((event.happened()[0].kind, event.comes_to_ns()), ("experiment_ended", Some(7)));
        assert!(event.takes_cores().unwrap().is_over);
        assert!(DisturbEvent::Look(ExperimentLook::default()).happened().is_empty());
        let alone = DisturbEvent::Began(ExperimentBegan { is_of_cores: false, ..began() }.into());
        assert_eq!(alone.takes_cores(), None, "what stops the workload alone takes nothing from cores");
    }

    #[test]
    fn a_journal_has_the_name_of_its_experiment() {
        let path = Path::new("/run").join(ExperimentBegan::journal("20261125T120000-7-0"));
        assert_eq!(ExperimentBegan::name_of(&path), Some("20261125T120000-7-0"));
        for other in ["a.txt", ".jsonl", "a b.jsonl", "\u{e9}.jsonl", "../a.jsonl/..", ".a.jsonl"] {
            assert_eq!(ExperimentBegan::name_of(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_line_of_a_journal_comes_back_as_it_was_written() {
        let event = DisturbEvent::Began(began().into());
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.starts_with(r#"{"seen":"began","experiment":"a-1","#), "{text}");
        assert_eq!(serde_json::from_str::<DisturbEvent>(&text).unwrap(), event);
    }
}
