//! Reads what a request asks for.

use axum::http::Uri;
use std::collections::BTreeSet;
use surefoot_http::{ApiError, parameters};
use surefoot_model::{CauseKind, CpuId};
use surefoot_rooms::stall::filter::Filter;

/// The longest minimum length of a gap that makes sense: a minute.
const MIN_US_MAX: f64 = 60_000_000.0;
/// The longest range that makes sense: a day.
const RANGE_S_MAX: u64 = 86_400;
/// Core numbers stay below this.
const CPUS_MAX: u32 = 8192;

/// Reads `cpu`, `kind`, `min_us` and `range_s`. Cores are checked against `watched` unless that is empty.
pub(super) fn of_lost_time(uri: &Uri, watched: &[CpuId]) -> Result<Filter, ApiError> {
    read(uri, watched, &["cpu", "kind", "min_us", "range_s"])
}

/// Reads `cpu`, `kind` and `range_s`, for who raised interrupts.
pub(super) fn of_interrupts(uri: &Uri, watched: &[CpuId]) -> Result<Filter, ApiError> {
    read(uri, watched, &["cpu", "kind", "range_s"])
}

/// The range alone; 0, for all of it, also where the request cannot be read, which [`of_interrupts`] refuses.
pub(super) fn range_of_interrupts(uri: &Uri) -> u64 {
    of_interrupts(uri, &[]).map_or(0, |filter| filter.range_ns)
}

fn read(uri: &Uri, watched: &[CpuId], allowed: &[&str]) -> Result<Filter, ApiError> {
    let mut filter = Filter::default();
    for (name, value) in parameters(uri, allowed)? {
        match name.as_str() {
            "cpu" => filter.cpus = cpus(&value, watched)?,
            "kind" => filter.kinds = kinds(&value)?,
            "min_us" => filter.min_ns = min_ns(&value)?,
            _ => filter.range_ns = range_ns(&value)?,
        }
    }
    Ok(filter)
}

fn cpus(text: &str, watched: &[CpuId]) -> Result<BTreeSet<CpuId>, ApiError> {
    let allowed = || match watched {
        [] => "a list such as 0,2-3".to_owned(),
        _ => format!("a list of {}", watched.iter().map(CpuId::to_string).collect::<Vec<_>>().join(",")),
    };
    let bad = || ApiError::bad_parameter("cpu", text, &allowed());
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { return Err(bad()) };
        if first > last || last >= CPUS_MAX {
            return Err(bad());
        }
        cpus.extend((first..=last).map(CpuId));
    }
    if !watched.is_empty() && !cpus.iter().all(|cpu| watched.contains(cpu)) {
        return Err(bad());
    }
    Ok(cpus)
}

fn kinds(text: &str) -> Result<BTreeSet<CauseKind>, ApiError> {
    text.split(',')
        .map(|word| {
            word.parse().map_err(|_: String| {
                let known: Vec<_> = CauseKind::ALL.iter().map(|kind| kind.as_str()).collect();
                ApiError::bad_parameter("kind", text, &format!("a list of {}", known.join(",")))
            })
        })
        .collect()
}

fn min_ns(text: &str) -> Result<u64, ApiError> {
    match text.parse::<f64>() {
        Ok(us) if (0.0..=MIN_US_MAX).contains(&us) => Ok((us * 1_000.0).round() as u64),
        _ => Err(ApiError::bad_parameter("min_us", text, &format!("microseconds from 0 to {MIN_US_MAX:.0}"))),
    }
}

fn range_ns(text: &str) -> Result<u64, ApiError> {
    match text.parse::<u64>() {
        Ok(seconds) if seconds <= RANGE_S_MAX => Ok(seconds * 1_000_000_000),
        _ => {
            let allowed = format!("whole seconds from 1 to {RANGE_S_MAX}, or 0 for everything kept");
            Err(ApiError::bad_parameter("range_s", text, &allowed))
        }
    }
}
