//! Memory errors as OpenMetrics.

use super::state::State;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{self, Counter, Gauge};
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_model::{Dimm, ErrorSeverity, MemoryController, MemoryLook, ReportingCost, one_line};

/// Modules that have series of their own: those with the most errors where there are more. The largest machines have a few
/// hundred.
const DIMMS_MAX: usize = 1024;
/// Controllers that have series of their own.
const CONTROLLERS_MAX: usize = 256;

/// A label and its value.
type Label<'a> = (&'static str, &'a str);
/// Name, help, unit and kind of a family.
type Family<'a> = (&'a str, &'a str, Option<&'a Unit>, MetricType);

/// Writes the series of the newest look; none where the host tells of no memory errors.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(state: &State, now_ns: u64, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let Some(look) = state.look_if_supported() else { return Ok(()) };
    let dimms = labelled(look);
    of_dimms(&dimms, encoder)?;
    of_controllers(look, encoder)?;
    of_costs(&state.costs(), encoder)?;
    let help =
        "Reports of memory errors that are not listed: too many at once, dropped by the kernel, or not understood.";
    let mut family = encoder.encode_descriptor("memory_reports_untold", help, None, Counter)?;
    family.encode_counter::<NoLabelSet, _, f64>(&(state.lost_count() as f64), None)?;
    let help = "Reports of memory errors that are listed.";
    let mut family = encoder.encode_descriptor("memory_reports", help, None, Counter)?;
    family.encode_counter::<NoLabelSet, _, f64>(&(state.reports_count as f64), None)?;
    let help = "DIMMs without their own series: over the limit.";
    let mut family = encoder.encode_descriptor("memory_dimms_without_series", help, None, Gauge)?;
    family.encode_gauge(&((look.dimms.len() - dimms.len()) as f64))?;
    let help = "Files and services that tell of memory errors and cannot be read.";
    let mut family = encoder.encode_descriptor("memory_problems", help, None, Gauge)?;
    family.encode_gauge(&(look.problems_left_out.saturating_add(look.problems.len() as u64) as f64))?;
    let help = "Age of the newest look at the memory errors.";
    let mut family = encoder.encode_descriptor("memory_look_age", help, Some(&Unit::Seconds), Gauge)?;
    family.encode_gauge(&(now_ns.saturating_sub(look.looked_realtime_ns) as f64 / 1e9))
}

/// The modules that have series, in the order of the look.
fn labelled(look: &MemoryLook) -> Vec<&Dimm> {
    let mut dimms: Vec<(usize, &Dimm)> = look.dimms.iter().enumerate().collect();
    if dimms.len() > DIMMS_MAX {
        dimms.sort_by_key(|(at, dimm)| (std::cmp::Reverse((dimm.uncorrected_count, dimm.corrected_count)), *at));
        dimms.truncate(DIMMS_MAX);
        dimms.sort_by_key(|(at, _)| *at);
    }
    dimms.into_iter().map(|(_, dimm)| dimm).collect()
}

fn of_dimms(dimms: &[&Dimm], encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let mut each = |family: Family<'_>, value: &dyn Fn(&Dimm) -> Option<f64>| {
        let (name, help, unit, kind) = family;
        let mut family = encoder.encode_descriptor(name, help, unit, kind)?;
        dimms.iter().filter_map(|dimm| Some((dimm, value(dimm)?))).try_for_each(|(dimm, value)| {
            let (id, label) = (one_line(&dimm.id), one_line(&dimm.label));
            write(&mut family, kind, &[("dimm", &id), ("label", &label)], value)
        })
    };
    let help = "Corrected errors of a memory module, over resets, wraps, reboots and moves.";
    each(("memory_corrected_errors", help, None, Counter), &|dimm| {
        read(dimm, ErrorSeverity::Corrected, dimm.corrected_count)
    })?;
    let help = "Uncorrected errors of a memory module.";
    each(("memory_uncorrected_errors", help, None, Counter), &|dimm| {
        read(dimm, ErrorSeverity::Uncorrected, dimm.uncorrected_count)
    })?;
    let help = "Corrected errors of a memory module per second between the two newest readings, within an hour.";
    each(("memory_corrected_errors_per_second", help, None, Gauge), &|dimm| Some(dimm.rate_per_s))?;
    let help = "Whether the rate of a memory module's corrected errors is over its bound.";
    each(("memory_over_rate", help, None, Gauge), &|dimm| Some(f64::from(u8::from(dimm.is_over_rate))))?;
    let help = "Whether the errors of a memory module point to a permanent fault.";
    let is_permanent = |dimm: &Dimm| {
        dimm.fault.as_ref().is_some_and(|fault| fault.persistence == surefoot_model::Persistence::Permanent)
    };
    each(("memory_permanent_fault", help, None, Gauge), &|dimm| Some(f64::from(u8::from(is_permanent(dimm)))))
}

/// A count; none where 0 only means that nobody could read it.
fn read(dimm: &Dimm, severity: ErrorSeverity, count: u64) -> Option<f64> {
    (count > 0 || !dimm.is_unread(severity)).then_some(count as f64)
}

fn of_controllers(look: &MemoryLook, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let mut each = |name: &str, help: &str, value: &dyn Fn(&MemoryController) -> Option<u64>| {
        let mut family = encoder.encode_descriptor(name, help, None, Counter)?;
        let controllers = look.controllers.iter().take(CONTROLLERS_MAX);
        controllers.filter_map(|one| Some((one, value(one)?))).try_for_each(|(controller, value)| {
            write(&mut family, Counter, &[("controller", &one_line(&controller.id))], value as f64)
        })
    };
    let help = "Corrected errors of a memory controller, those of no known module included.";
    each("memory_controller_corrected_errors", help, &|one| one.corrected_count)?;
    let help = "Uncorrected errors of a memory controller, those of no known module included.";
    each("memory_controller_uncorrected_errors", help, &|one| one.uncorrected_count)?;
    let help = "Corrected errors of a memory controller whose module is not known.";
    each("memory_controller_no_information_errors", help, &|one| one.no_information_count)
}

fn of_costs(costs: &[ReportingCost], encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let basis = |cost: &ReportingCost| match cost.basis {
        surefoot_model::CostBasis::Measured => "measured",
        surefoot_model::CostBasis::Literature => "literature",
    };
    let help = "Time of a core for one report of a memory error, by what is done for it.";
    let family = encoder.encode_descriptor("memory_reporting_each", help, Some(&Unit::Seconds), Gauge);
    let mut family = family?;
    for cost in costs {
        write(&mut family, Gauge, &[("what", &cost.what), ("basis", basis(cost))], cost.each_ns as f64 / 1e9)?;
    }
    let help = "Time of cores that reporting memory errors takes per day, by what is done for it.";
    let mut family = encoder.encode_descriptor("memory_reporting_per_day", help, Some(&Unit::Seconds), Gauge)?;
    for (cost, per_day_ns) in costs.iter().filter_map(|cost| Some((cost, cost.per_day_ns?))) {
        write(&mut family, Gauge, &[("what", &cost.what), ("basis", basis(cost))], per_day_ns as f64 / 1e9)?;
    }
    Ok(())
}

fn write(family: &mut MetricEncoder<'_>, kind: MetricType, labels: &[Label<'_>], value: f64) -> Result<(), Error> {
    let mut one = family.encode_family(&labels)?;
    match kind {
        Counter => one.encode_counter::<NoLabelSet, _, f64>(&value, None),
        _ => one.encode_gauge(&value),
    }
}
