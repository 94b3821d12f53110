//! Checks as OpenMetrics.

use super::state::State;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType::{Counter, Gauge};
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_model::{CheckState, HostCheck};

/// Writes the series of the checks; none where none has ended.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(state: &State, now_ns: u64, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    if state.checks.is_empty() {
        return Ok(());
    }
    let help = "State of the periodic check: 1 for the current state.";
    let mut family = encoder.encode_descriptor("remedy_check_state", help, None, Gauge)?;
    for check in state.checks.values() {
        for one in CheckState::ALL {
            let labels = [("check", check.name.as_str()), ("state", one.as_str())];
            family.encode_family(&labels)?.encode_gauge(&f64::from(u8::from(check.state == one)))?;
        }
    }
    let mut each = |name: &str, help: &str, value: &dyn Fn(&HostCheck) -> f64| {
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), Gauge)?;
        state.checks.values().try_for_each(|check| {
            let labels = [("check", check.name.as_str())];
            family.encode_family(&labels)?.encode_gauge(&value(check))
        })
    };
    each("remedy_check_age", "Age of the newest result of the check.", &|check| {
        now_ns.saturating_sub(check.at_realtime_ns) as f64 / 1e9
    })?;
    each("remedy_check_duration", "How long the newest run of the check took.", &|check| check.took_ns as f64 / 1e9)?;
    let help = "Processor time of all runs of checks.";
    let mut family = encoder.encode_descriptor("remedy_check_processor", help, Some(&Unit::Seconds), Counter)?;
    family.encode_counter::<NoLabelSet, _, f64>(&(state.processor_ns as f64 / 1e9), None)
}
