//! What is found of interfaces, for people.

use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration};
use surefoot_model::{Carried, Deed, DeedOutcome, Interface, InterfaceLook, ReporterState, one_line};
use surefoot_rooms::nic::findings;

/// A look as a table, with what stands behind each state below.
pub fn of(look: &InterfaceLook) -> String {
    let columns = [
        "interface",
        "driver",
        "state",
        "link",
        "tx timeouts",
        "carrier changes",
        "errors",
        "reporters",
        "round trip",
        "carries",
    ];
    let mut table = Table::new(&columns, &[0, 1, 2, 3, 7, 8, 9]);
    look.interfaces.iter().for_each(|one| table.row(row(one)));
    let mut text = table.text();
    for one in &look.interfaces {
        text += &details(one);
    }
    for problem in &look.problems {
        text += &format!("Problem: {}: {}\n", one_line(&problem.path), one_line(&problem.why));
    }
    if look.interfaces_left_out > 0 {
        text += &format!("{} more\n", counted(look.interfaces_left_out, "interface", "interfaces"));
    }
    text
}

fn row(one: &Interface) -> Vec<String> {
    let counters = &one.counters;
    let errors = [counters.rx_errors, counters.rx_missed_errors, counters.tx_errors];
    let bad = one.reporters.iter().filter(|one| one.state != ReporterState::Healthy).count();
    let reporters = match (one.reporters.len(), bad) {
        (0, _) => "-".to_owned(),
        (all, 0) => format!("{all} healthy"),
        (all, bad) => format!("{bad} of {all} in error"),
    };
    vec![
        one.name.clone(),
        one.driver.clone().unwrap_or_else(|| "-".into()),
        one.state.as_str().to_owned(),
        findings::link(one),
        one.tx_timeout_count.map_or("-".into(), |count| count.to_string()),
        one.carrier_change_count.map_or_else(|| "-".into(), |count| count.to_string()),
        // One that is not told may be any number.
        errors
            .iter()
            .try_fold(0u64, |sum, count| Some(sum.saturating_add((*count)?)))
            .map_or("unknown".into(), |sum| sum.to_string()),
        reporters,
        one.probe.as_ref().and_then(|probe| probe.round_trips).map_or("-".into(), |trips| duration(trips.p50_ns)),
        if one.carries.is_empty() { "-".into() } else { Carried::list(&one.carries) },
    ]
}

/// What the state rests on, and what reporters, probes and the self-test say.
fn details(one: &Interface) -> String {
    let mut text = format!("\n{}: {}", one_line(&one.name), one.state.as_str());
    text += &one.certainty.map_or(String::new(), |certainty| format!(" ({})", certainty.label()));
    text.push('\n');
    for line in &one.evidence {
        text += &format!("  {}\n", one_line(line));
    }
    for reporter in &one.reporters {
        let state = match reporter.state {
            ReporterState::Healthy => "healthy",
            ReporterState::Error => "error",
            ReporterState::Unknown => "unknown",
        };
        let (errors, recoveries) = (
            counted(reporter.error_count, "error", "errors"),
            counted(reporter.recover_count, "recovery", "recoveries"),
        );
        let dump = if reporter.has_dump { ", dump available" } else { "" };
        text += &format!("  reporter {}: {state}, {errors}, {recoveries}{dump}\n", one_line(&reporter.name));
    }
    if let Some(probe) = &one.probe {
        text += &format!("  probes of {}: {} of {} answered", probe.peer, probe.answered_count, probe.sent_count);
        if let Some(trips) = probe.round_trips {
            text += &format!("; median {}, ", duration(trips.p50_ns));
            // Of fewer than 100 the longest is the 99th of 100 as well.
            if probe.answered_count >= 100 {
                text += &format!("99 of 100 within {}, ", duration(trips.p99_ns));
            }
            text += &format!("longest {}", duration(trips.max_ns));
        }
        text += &probe.baseline.map_or(String::new(), |usual| format!("; usual median {}", duration(usual.p50_ns)));
        text.push('\n');
    }
    if let Some(test) = &one.self_test {
        let kind = if test.is_offline { "offline" } else { "online" };
        let result = match (&test.why_not, test.has_passed) {
            (Some(why), _) => format!("not run: {why}"),
            (None, true) => "passed".into(),
            (None, false) => "FAILED".into(),
        };
        text += &format!("  {kind} self-test: {}\n", one_line(&result));
        for part in &test.parts {
            text += &format!("    {}: {}\n", one_line(&part.name), part.value);
        }
    }
    text
}

/// What was done for interfaces, or would be.
pub fn steps(is_asked: bool, is_done: bool, steps: &[Deed]) -> String {
    if !is_asked {
        return String::new();
    }
    if steps.is_empty() {
        return "\nRecovery: no interface is hung; nothing to do.\n".into();
    }
    let mut text = String::from("\n");
    for step in steps {
        text += &step_text(step, "\n  ");
        text.push('\n');
    }
    if !is_done && steps.iter().any(|step| step.outcome == DeedOutcome::Planned) {
        text += "Nothing was changed; add --yes to do it.\n";
    }
    text
}

/// A step: why, and what came of it.
pub fn step_text(step: &Deed, between: &str) -> String {
    let target = match step.target.to_string() {
        target if target.is_empty() => target,
        target => format!(" ({})", one_line(&target)),
    };
    let what = format!("{}: {}{target}", one_line(&step.subject.name), step.action.label());
    let detail = match step.outcome.detail() {
        detail if detail.is_empty() => detail,
        detail => format!(": {}", one_line(&detail)),
    };
    format!("{what}, because {}{between}{}{detail}", one_line(&step.reason.to_string()), step.outcome.as_str())
}
