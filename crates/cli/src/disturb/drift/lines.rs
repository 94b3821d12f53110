//! The lines of `--json`, which are also what the text tells.

use super::measuring::Measured;
use super::options::DriftOptions;
use serde::Serialize;
use surefoot_disturb::disturbance::Chosen;
use surefoot_disturb::drift::{Compared, Rate};
use surefoot_hostfs::Root;
use surefoot_model::CpuId;

/// One comparison.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub fn of(disturbed: bool, compared: Compared) -> ComparedLine {
        let Compared { at_ns, ahead_ns, error_ns } = compared;
        ComparedLine { disturbed, at_ns, ahead_ns, error_ns }
    }
}

/// How fast the wall clock leaves its reference.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateLine {
    /// Nanoseconds a second; negative where it loses them.
    pub ns_per_s: f64,
    /// Its standard deviation.
    pub deviation_ns_per_s: f64,
    pub comparison_count: usize,
    /// Left out, because a stall was in them.
    pub left_out_count: usize,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    pub undisturbed: RateLine,
    pub disturbed: RateLine,
    pub reference: String,
    /// What the kernel's time comes from: a clock that counts ticks loses those that are held up.
    pub clocksource: Option<String>,
    pub method: &'static str,
    pub method_words: &'static str,
    pub cores: Vec<CpuId>,
    pub length_ns: u64,
    pub period_ns: u64,
    pub missed_stalls: u64,
    pub dropped_stalls: u64,
    pub cut_stalls: u64,
    pub warnings: Vec<String>,
}

impl DriftLine {
    pub fn of(
        options: &DriftOptions,
        chosen: &Chosen,
        reference: &str,
        measured: &Measured,
        warnings: Vec<String>,
        root: &Root,
    ) -> DriftLine {
        let spec = &options.disturbance.0;
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
