//! The JSON lines of `memory tune`.

use serde::Serialize;
use std::path::Path;
use surefoot_memory::tune::act::{Applied, Step};
use surefoot_memory::tune::{Choice, Counters, Platform, Point};

const NS_PER_S: f64 = 1e9;

/// What the interval is on this host.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "platform")]
pub struct PlatformLine<'a> {
    /// `edac_polling`, `machine_check_polling`, `interrupts`, `firmware_first`, `off`, `unknown` or `none`.
    pub mode: &'static str,
    /// The file that sets the interval; `None` where nothing does.
    pub knob: Option<&'a Path>,
    pub interval_now_s: Option<f64>,
    pub shortest_s: Option<f64>,
    pub longest_s: Option<f64>,
    /// Why the interval cannot be set, and what can be done.
    pub refusal: Option<&'a str>,
    pub evidence: &'a [String],
    /// What a poll does to the error counters: `emptied_by_polls`, `kept_by_polls` or `unknown`.
    pub counters: &'static str,
    /// Whether corrected errors are printed on the console; `None` where no file says so.
    pub logs_on_console: Option<bool>,
}

/// What an interval comes to.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "interval")]
pub struct PointLine {
    pub interval_s: f64,
    pub stall_ns_per_day: f64,
    /// Of that, what printing lines on the console takes.
    pub lines_ns_per_day: f64,
    pub stall_longest_ns: u64,
    pub missed_count: u64,
    pub missed_share: f64,
}

/// A change of the host.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "step")]
pub struct StepLine<'a> {
    pub path: &'a Path,
    pub from: &'a str,
    pub to: &'a str,
    /// Why it is done.
    pub why: &'a str,
    /// `would_write` without `--yes`, `verified`, `read_back`, `rolled_back` or `failed`.
    pub outcome: &'static str,
    /// What was seen of its effect, or what went wrong.
    pub evidence: &'a str,
}

/// The interval that was chosen.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "choice")]
pub struct ChoiceLine {
    /// `None` where even the shortest breaks a bound.
    pub interval_s: Option<f64>,
    /// Whether this host has an interval that can be set; elsewhere `interval_s` is what would be best where it is polled.
    pub applies_here: bool,
    /// What keeps it from being longer: `loss`, `longest_stall`, `detection`, `proof_of_rate`, `range` or `total_stall`.
    pub binding_constraint: &'static str,
    pub binding_words: &'static str,
    /// The longest interval that keeps the bounds whatever moment the polls begin at.
    pub any_phase_interval_s: Option<f64>,
    pub arrived_count: u64,
    pub reported_count: u64,
    pub missed_count: u64,
    pub stall_total_ns: u64,
    pub stall_longest_ns: u64,
    pub report_count: u64,
    pub poll_count: u64,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S
}

pub fn platform(platform: &Platform) -> PlatformLine<'_> {
    let knob = platform.knob.as_ref();
    PlatformLine {
        mode: platform.mode.name(),
        knob: knob.map(|knob| knob.path.as_path()),
        interval_now_s: knob.and_then(|knob| knob.now_ns).map(seconds),
        shortest_s: knob.map(|knob| seconds(knob.shortest_ns)),
        longest_s: knob.map(|knob| seconds(knob.longest_ns)),
        refusal: platform.refusal.as_deref(),
        evidence: &platform.evidence,
        counters: match platform.counters {
            Counters::EmptiedByPolls(_) => "emptied_by_polls",
            Counters::KeptByPolls => "kept_by_polls",
            Counters::Unknown => "unknown",
        },
        logs_on_console: platform.log_lever.as_ref().map(|lever| lever.is_on),
    }
}

pub fn point(point: &Point) -> PointLine {
    PointLine {
        interval_s: seconds(point.interval_ns),
        stall_ns_per_day: point.stall_ns_per_day,
        lines_ns_per_day: point.lines_ns_per_day,
        stall_longest_ns: point.stall_longest_ns,
        missed_count: point.missed_count,
        missed_share: point.missed_share,
    }
}

pub fn step<'a>(step: &'a Step, outcome: Option<&'a Applied>) -> StepLine<'a> {
    let (outcome, evidence) = match outcome {
        None => ("would_write", ""),
        Some(Applied::Verified { evidence }) => ("verified", evidence.as_str()),
        Some(Applied::ReadBack) => ("read_back", "it reads back; nothing on this host counts its effect"),
        Some(Applied::RolledBack { evidence }) => ("rolled_back", evidence.as_str()),
        Some(Applied::Failed { why }) => ("failed", why.as_str()),
    };
    StepLine { path: &step.path, from: &step.from, to: &step.to, why: &step.why, outcome, evidence }
}

pub fn choice(choice: &Choice, platform: &Platform) -> ChoiceLine {
    let outcome = &choice.outcome;
    ChoiceLine {
        interval_s: choice.interval_ns.map(seconds),
        applies_here: platform.knob.is_some(),
        binding_constraint: choice.binding.name(),
        binding_words: choice.binding.words(),
        any_phase_interval_s: choice.any_phase_ns.map(seconds),
        arrived_count: outcome.arrived_count,
        reported_count: outcome.reported_count,
        missed_count: outcome.missed_count,
        stall_total_ns: outcome.stall_total_ns,
        stall_longest_ns: outcome.stall_longest_ns,
        report_count: outcome.report_count,
        poll_count: outcome.poll_count,
    }
}
