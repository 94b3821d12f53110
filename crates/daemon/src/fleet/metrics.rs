//! `/metrics` of the server of the remedies. No label is a stranger's word.

use super::Served;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use surefoot_store::cases::Counts;

/// Counts of answers and of what was left out.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) alerts_refused: AtomicU64,
    pub(super) alerts_truncated: AtomicU64,
    pub(super) reload_failed: AtomicU64,
    /// By class of status, 2xx to 5xx.
    pub(super) by_class: [AtomicU64; 4],
}

/// OpenMetrics. `counts` are those of the store, where it could be asked.
pub(super) fn text(served: &Served, counts: Option<&Counts>) -> String {
    let mut text = Text::default();
    text.one("store_up", "gauge", "Whether the store could be asked.", u64::from(counts.is_some()));
    if let Some(counts) = counts {
        let by_state: Vec<_> =
            counts.cases.iter().map(|(state, count)| (format!("{{state=\"{state}\"}}"), *count)).collect();
        text.family("cases", "gauge", "Cases by state.", &by_state);
        text.one("alerts_known", "gauge", "Alerts that the store knows.", counts.alerts);
        text.one("alerts_firing", "gauge", "Alerts that hold now.", counts.alerts_firing);
        text.one("hosts", "gauge", "Hosts that tell of themselves.", counts.hosts);
        text.one("paused", "gauge", "Whether everything is paused.", u64::from(counts.is_paused));
    }
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let intake = &served.intake.counts;
    text.counter("alerts_taken", "Alerts of Alertmanager that were written.", read(&intake.alerts));
    text.counter("boards_taken", "Messages of agents that were written.", read(&intake.boards));
    text.counter("news", "Alerts that told something new.", read(&intake.news));
    text.counter("writes", "Transactions in which messages were written.", read(&intake.writes));
    text.counter("messages_refused", "Messages that found the queue full.", read(&intake.refused));
    text.counter("messages_failed", "Messages that could not be written.", read(&intake.failed));
    text.counter("rows_forgotten", "Rows of the store that were too old.", read(&intake.pruned));
    let own = &served.counts;
    text.counter("alerts_refused", "Alerts that are of no host, or not as they should be.", read(&own.alerts_refused));
    text.counter("alerts_truncated", "Alerts that Alertmanager left out.", read(&own.alerts_truncated));
    text.counter("reloads_failed", "Policies that were not taken because of an error.", read(&own.reload_failed));
    let classes: Vec<_> = own
        .by_class
        .iter()
        .enumerate()
        .map(|(place, count)| (format!("{{class=\"{}xx\"}}", place + 2), read(count)))
        .collect();
    text.family("answers", "counter", "Answers by class of status.", &classes);
    if let Some(link) = &served.link {
        let counts = &link.counts;
        let is_up = u64::from(counts.is_up.load(Ordering::Relaxed));
        text.one("alertmanager_up", "gauge", "Whether Alertmanager answered last.", is_up);
        text.one("silences", "gauge", "Silences that hold.", link.silences.count());
        text.one(
            "silences_left_out",
            "gauge",
            "Silences that are not understood, or too many.",
            read(&counts.silences_left_out),
        );
        text.one("alerts_silenced", "gauge", "Alerts that are left alone.", read(&link.silences.hidden));
        text.one(
            "findings_left_out",
            "gauge",
            "Findings that Alertmanager was not told for want of room.",
            read(&counts.left_out),
        );
        text.counter("findings_told", "Findings of agents that Alertmanager was told.", read(&counts.pushed));
        text.counter("alertmanager_errors", "Turns in which Alertmanager did not answer.", read(&counts.failed));
    }
    let engine = served.engine.counts();
    text.counter("decisions", "Decisions.", read(&engine.decided));
    text.counter("attempts", "Steps that were begun, gone on with or looked for.", read(&engine.attempts));
    text.counter("attempts_lost", "Attempts whose lease was lost.", read(&engine.lost));
    text.counter("store_errors", "Calls of the store by the engine that failed.", read(&engine.store_errors));
    text.one("steps_running", "gauge", "Steps that are being done here.", read(&engine.running));
    let seconds = read(&engine.round_ns) as f64 / 1e9;
    let name = "surefoot_remedy_round_seconds";
    let _ = writeln!(text.0, "# TYPE {name} gauge\n# UNIT {name} seconds");
    let _ = writeln!(text.0, "# HELP {name} How long the last round of deciding and writing took.\n{name} {seconds}");
    text.0 + "# EOF\n"
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help, &[(String::new(), value)]);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.one(name, "counter", help, value);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str, values: &[(String, u64)]) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        let name = format!("surefoot_remedy_{name}");
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# TYPE {name} {kind}\n# HELP {name} {help}\n");
        for (labels, value) in values {
            let _ = writeln!(self.0, "{name}{suffix}{labels} {value}");
        }
    }
}
