//! `/metrics` of the controller of remedies. No label contains text of strangers.

use super::Served;
use super::refused::Reason;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::{AtomicU64, Ordering};
use surefoot_remedy::decide::HeldReason;
use surefoot_store::cases::Counts;

/// Counts of answers and of what was left out.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) reload_failed: AtomicU64,
    /// By class of status, 2xx to 5xx.
    pub(super) by_class: [AtomicU64; 4],
}

/// All series. `counts` are the store's; `None` if it could not be asked.
pub(super) fn registry(served: &Served, counts: Option<&Counts>) -> Registry {
    let mut series = Series(Registry::with_prefix("surefoot_remedy"));
    let is_up = counts.is_some() && served.store.is_good();
    series.gauge("store_up", "1 if the store answers and takes what is written", u64::from(is_up));
    if let Some(counts) = counts {
        series.store(counts);
    }
    series.intake(served);
    if let Some(link) = &served.link {
        let counts = &link.counts;
        series.gauge(
            "alertmanager_up",
            "1 if the last request to Alertmanager succeeded",
            u64::from(counts.is_up.load(Ordering::Relaxed)),
        );
        series.gauge("silences", "Active silences", link.silences.count());
        series.gauge(
            "silences_left_out",
            "Silences ignored: not understood, or over the limit",
            read(&counts.silences_left_out),
        );
        series.gauge("alerts_silenced", "Alerts on hold because of a silence", read(&link.silences.hidden));
        series.gauge("findings_left_out", "Findings not sent to Alertmanager: over the limit", read(&counts.left_out));
        series.counter("findings_told", "Findings of agents sent to Alertmanager", read(&counts.pushed));
        series.counter("alertmanager_errors", "Failed requests to Alertmanager", read(&counts.failed));
    }
    let engine = served.engine.counts();
    series.counter("decisions", "Decisions", read(&engine.decided));
    series.counter("attempts", "Steps started, continued or checked", read(&engine.attempts));
    series.counter("attempts_lost", "Attempts whose lease was lost", read(&engine.lost));
    series.gauge(
        "alerts_unread",
        "Alerts that cannot be read and get no case; the audit trail names them",
        read(&served.store.alerts_unread),
    );
    series.counter("store_errors", "Store calls that failed", read(&served.store.failed));
    series.gauge("steps_running", "Steps running here", read(&engine.running));
    let held = Family::<[(&str, &str); 1], Gauge<u64, AtomicU64>>::default();
    for reason in HeldReason::ALL {
        held.get_or_create(&[("reason", reason.as_str())]).set(read(engine.held_back(reason)));
    }
    series.0.register("alerts_held_back", "Firing alerts that get no case for now, by reason", held);
    let round = ConstGauge::new(read(&engine.round_ns) as f64 / 1e9);
    series.0.register_with_unit("round", "Duration of the last round of deciding and writing", Unit::Seconds, round);
    series.0
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

struct Series(Registry);

impl Series {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstGauge::new(value));
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.0.register(name, help, ConstCounter::new(value));
    }

    fn store(&mut self, counts: &Counts) {
        let cases = Family::<[(&str, String); 1], Gauge<u64, AtomicU64>>::default();
        for (state, count) in &counts.cases {
            cases.get_or_create(&[("state", state.to_string())]).set(*count);
        }
        self.0.register("cases", "Cases by state", cases);
        self.gauge("cases_unread", "Open cases that cannot be read; nothing is begun at their hosts", counts.unread.1);
        self.gauge("alerts_known", "Alerts in the store", counts.alerts);
        self.gauge("alerts_firing", "Alerts that are firing", counts.alerts_firing);
        self.gauge("hosts", "Hosts whose agents report", counts.hosts);
        let rivals = "Host names under which two machines report, 16 at most";
        self.gauge("hosts_with_rivals", rivals, counts.rivals.len() as u64);
        self.gauge("paused", "1 if all remedies are paused", u64::from(counts.is_paused));
    }

    fn intake(&mut self, served: &Served) {
        let intake = &served.intake.counts;
        self.counter("alerts_taken", "Alerts of Alertmanager written to the store", read(&intake.alerts));
        self.counter("boards_taken", "Messages of agents written to the store", read(&intake.boards));
        self.counter("news", "Alerts that changed something", read(&intake.news));
        self.counter("writes", "Transactions that wrote messages", read(&intake.writes));
        self.counter("messages_refused", "Messages refused because the queue was full", read(&intake.refused));
        self.counter("messages_failed", "Messages that could not be written", read(&intake.failed));
        self.counter(
            "messages_of_rivals",
            "Messages refused because another machine has the host name",
            read(&intake.rivals),
        );
        self.counter("rows_forgotten", "Store rows deleted because of their age", read(&intake.pruned));
        let own = &served.counts;
        let refused = Family::<[(&str, &str); 1], Counter>::default();
        for reason in Reason::ALL {
            refused.get_or_create(&[("reason", reason.as_str())]).inc_by(served.not_taken.count(reason));
        }
        self.0.register("refused", "Alerts and findings that were not taken, by reason", refused);
        self.counter(
            "refused_unnoted",
            "Messages whose refusals are not in the audit trail: too many at once, or the store was away",
            read(&served.not_taken.unnoted),
        );
        self.counter("reloads_failed", "Policies rejected because of an error", read(&own.reload_failed));
        let answers = Family::<[(&str, String); 1], Counter>::default();
        for (place, count) in own.by_class.iter().enumerate() {
            answers.get_or_create(&[("class", format!("{}xx", place + 2))]).inc_by(read(count));
        }
        self.0.register("answers", "HTTP answers by status class", answers);
    }
}
