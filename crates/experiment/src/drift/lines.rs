//! The lines of `--json`, which are also what the text tells.

use super::measuring::Measured;
use serde::Serialize;
use surefoot_disturb::disturbance::{Chosen, Spec};
use surefoot_disturb::drift::{Compared, Rate};
use surefoot_hostfs::Root;
use surefoot_model::CpuId;

/// One comparison.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "comparison")]
pub struct ComparedLine {
    /// Whether cores were being stopped.
    disturbed: bool,
    /// By the reference, since 1970.
    at_ns: i64,
    /// By how much the wall clock is ahead of it.
    ahead_ns: i64,
    /// That may be wrong by so much.
    error_ns: u64,
}

impl ComparedLine {
    /// The line of a comparison.
    pub fn of(disturbed: bool, compared: Compared) -> ComparedLine {
        let Compared { at_ns, ahead_ns, error_ns, .. } = compared;
        ComparedLine { disturbed, at_ns, ahead_ns, error_ns }
    }
}

/// How fast the wall clock leaves its reference.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateLine {
    /// Nanoseconds a second; negative where it loses them.
    pub ns_per_s: f64,
    /// Its standard deviation.
    pub deviation_ns_per_s: f64,
    /// Comparisons that it is of.
    pub comparison_count: usize,
    /// Left out, because a stall was in them.
    pub left_out_count: usize,
    /// From the first comparison to the last.
    pub span_s: f64,
}

impl RateLine {
    fn of(rate: &Rate) -> RateLine {
        RateLine {
            ns_per_s: rate.ns_per_s,
            deviation_ns_per_s: rate.deviation,
            comparison_count: rate.samples,
            left_out_count: rate.left_out,
            span_s: rate.span_s,
        }
    }
}

/// What disturbances do to the wall clock.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "drift")]
pub struct DriftLine {
    /// Nanoseconds that it gains by a thousand disturbances; negative where it loses them.
    pub ns_per_thousand: f64,
    /// It is no less in 19 of 20 cases.
    pub interval_low_ns: f64,
    /// And no more.
    pub interval_high_ns: f64,
    /// The interval does not hold 0.
    pub drift_shown: bool,
    /// Moments at which cores stood still.
    pub disturbance_count: u64,
    /// Without stalls.
    pub undisturbed: RateLine,
    /// Under stalls.
    pub disturbed: RateLine,
    /// The reference, for people.
    pub reference: String,
    /// What the kernel's time comes from: a clock that counts ticks loses those that are held up.
    pub clocksource: Option<String>,
    /// How cores were stopped.
    pub method: &'static str,
    /// The same in words.
    pub method_words: &'static str,
    /// The cores that were stopped.
    pub cores: Vec<CpuId>,
    /// The length of a stall.
    pub length_ns: u64,
    /// From one stall to the next.
    pub period_ns: u64,
    /// Stalls that were not done.
    pub missed_stalls: u64,
    /// Stalls of which there is no record.
    pub dropped_stalls: u64,
    /// Stalls that ended too early.
    pub cut_stalls: u64,
    /// What a reader must keep in mind.
    pub warnings: Vec<String>,
}

impl DriftLine {
    /// The line of what was measured.
    pub fn of(
        spec: &Spec,
        chosen: &Chosen,
        reference: &str,
        measured: &Measured,
        warnings: Vec<String>,
        root: &Root,
    ) -> DriftLine {
        let Measured { drift: found, disturbances, losses, .. } = measured;
        DriftLine {
            ns_per_thousand: found.ns_per_thousand,
            interval_low_ns: found.low_ns,
            interval_high_ns: found.high_ns,
            drift_shown: found.is_shown(),
            disturbance_count: *disturbances,
            undisturbed: RateLine::of(&found.undisturbed),
            disturbed: RateLine::of(&found.disturbed),
            reference: reference.to_owned(),
            clocksource: clocksource(root),
            method: chosen.method,
            method_words: chosen.words,
            cores: chosen.cores.clone(),
            length_ns: spec.length_ns,
            period_ns: spec.period_ns,
            missed_stalls: losses.missed,
            dropped_stalls: losses.dropped,
            cut_stalls: losses.cut,
            warnings,
        }
    }
}

/// What the kernel's time comes from.
pub fn clocksource(root: &Root) -> Option<String> {
    let source = root.read(root.sys("devices/system/clocksource/clocksource0/current_clocksource"));
    source.ok().map(|text| text.trim().to_owned())
}
