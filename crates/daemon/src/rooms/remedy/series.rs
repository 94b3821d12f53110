//! Checks as metrics.

use crate::http::series::{Claim, Series};
use surefoot_http::metrics::seconds;
use surefoot_model::{CheckState, HostCheck};
use surefoot_rooms::remedy::state::State;

/// Adds the series of the checks; none where none has ended.
pub(super) fn encode(state: &State, now_ns: u64, series: &mut Series) {
    if state.checks.is_empty() {
        return;
    }
    let family = series.gauge("remedy_checks", "Periodic checks by their state.");
    for one in CheckState::ALL {
        let count = state.checks.values().filter(|check| check.state == one).count();
        family.add(&[("state", one.as_str())], count as u64);
    }
    let mut checks: Vec<&HostCheck> = state.checks.values().collect();
    // The worst first.
    checks.sort_by(|a, b| (b.state, &a.name).cmp(&(a.state, &b.name)));
    for (place, check) in checks.into_iter().enumerate() {
        let (claim, name) = (Claim(place), ("check", check.name.as_str()));
        let help = "The state of the periodic check.";
        series.gauge("remedy_check_state", help).of(claim, &[name, ("state", check.state.as_str())], true);
        let help = "Age of the newest result of the check.";
        let age_ns = now_ns.saturating_sub(check.at_realtime_ns);
        series.seconds("remedy_check_age", help).of(claim, &[name], seconds(age_ns));
        let help = "How long the newest run of the check took.";
        series.seconds("remedy_check_duration", help).of(claim, &[name], seconds(check.took_ns));
    }
    let help = "Processor time of all runs of checks.";
    series.seconds_counter("remedy_check_processor", help).add(&[], seconds(state.processor_ns));
}
