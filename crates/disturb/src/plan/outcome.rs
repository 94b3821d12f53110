//! What the runs of a case come to.

use super::{Case, Compared, Done, Measure};
use crate::disturbance::Losses;
use crate::effect::{self, Effect, Shift, outliers};
use crate::experiment::Timing;
use surefoot_model::CpuId;

/// How a treatment was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct How {
    /// The word for it; `None` where it was not done.
    pub method: Option<&'static str>,
    /// What that really does.
    pub words: &'static str,
    /// On which cores; none where the workload or a guest was stopped.
    pub cores: Vec<CpuId>,
    /// Better methods that this host does not allow, each with the reason.
    pub not_used: Vec<String>,
    /// What its injector counted beside it.
    pub notes: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoResult {
    /// This host cannot do it.
    Unsupported(String),
    /// It was tried and failed.
    Failed(String),
}

/// What a case comes to.
#[derive(Debug, Clone)]
pub struct CaseOutcome {
    /// All its runs.
    pub runs: Vec<Done>,
    /// Why it is not complete.
    pub gave_up: Option<NoResult>,
    /// In the order of the case's own.
    pub treatments: Vec<TreatmentOutcome>,
}

/// What a treatment did.
#[derive(Debug, Clone)]
pub struct TreatmentOutcome {
    /// Why this host cannot do it.
    pub unsupported: Option<String>,
    /// How it was done.
    pub how: How,
    /// The share of the disturbed runs' time that the disturbed cores stood still.
    pub injected_share: f64,
    /// Stalls that touched the runs.
    pub stall_count: u64,
    /// What went otherwise than planned.
    pub losses: Losses,
    /// How exactly the stalls came, in the runs that were not known before.
    pub timing: Timing,
    /// In the order of the case's own.
    pub measures: Vec<MeasureOutcome>,
}

/// What became of a number.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureOutcome {
    /// Repetitions that have both runs.
    pub pairs: usize,
    /// Of the undisturbed and the disturbed runs of these.
    pub medians: [f64; 2],
    /// Disturbed over undisturbed; of measures that are compared so, and from two pairs on.
    pub effect: Option<Effect>,
    /// Disturbed less undisturbed, of the others.
    pub shift: Option<Shift>,
    /// The numbers of the runs that lie far from the others of their kind.
    pub outliers: Vec<u64>,
}

pub(super) fn of(
    case: &Case,
    runs: Vec<Done>,
    gave_up: Option<NoResult>,
    unsupported: impl Fn(usize) -> Option<String>,
    how: impl Fn(usize) -> How,
    timing: impl Fn(usize) -> Timing,
) -> CaseOutcome {
    let treatment = |number: usize| {
        let (mut wall_ns, mut stalled_ns, mut stall_count) = (0.0, 0.0, 0);
        let mut losses = Losses::default();
        for done in runs.iter().filter(|done| done.place.treatment == Some(number)) {
            wall_ns += done.run.wall_ns as f64;
            stalled_ns += done.run.wall_ns as f64 * done.run.injected_share;
            stall_count += done.run.stall_count;
            losses.add(done.run.losses);
        }
        TreatmentOutcome {
            unsupported: unsupported(number),
            how: how(number),
            injected_share: stalled_ns / f64::max(wall_ns, 1.0),
            stall_count,
            losses,
            timing: timing(number),
            measures: case
                .measures
                .iter()
                .enumerate()
                .map(|(place, measure)| measured(&runs, number, place, measure))
                .collect(),
        }
    };
    let treatments = (0..case.treatments.len()).map(treatment).collect();
    CaseOutcome { runs, gave_up, treatments }
}

fn measured(runs: &[Done], treatment: usize, place: usize, measure: &Measure) -> MeasureOutcome {
    let of = |treatment: Option<usize>| {
        runs.iter().filter(move |done| done.place.treatment == treatment && done.place.repetition.is_some())
    };
    let pairs: Vec<(f64, f64)> = of(Some(treatment))
        .filter_map(|disturbed| {
            let own = of(None).find(|done| done.place.repetition == disturbed.place.repetition)?;
            Some((own.values[place], disturbed.values[place]))
        })
        .collect();
    let mut far = Vec::new();
    for kind in [None, Some(treatment)] {
        let values: Vec<f64> = of(kind).map(|done| done.values[place]).collect();
        far.extend(of(kind).zip(outliers(&values)).filter(|(_, is_far)| *is_far).map(|(done, _)| done.run.number));
    }
    let medians = [
        effect::median(pairs.iter().map(|pair| pair.0).collect()),
        effect::median(pairs.iter().map(|pair| pair.1).collect()),
    ];
    let (effect, shift) = match measure.compared {
        Compared::Ratio => (Effect::of(&pairs), None),
        Compared::Difference => {
            (None, Shift::of(&pairs.iter().map(|(undisturbed, disturbed)| disturbed - undisturbed).collect::<Vec<_>>()))
        }
    };
    MeasureOutcome { pairs: pairs.len(), medians, effect, shift, outliers: far }
}
