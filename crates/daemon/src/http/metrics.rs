//! /metrics: the families of all rooms.

use super::series::{Claim, Series, Value};
use crate::config::Mode;
use crate::keep::shared::Shared;
use axum::http::HeaderMap;
use axum::response::Response;
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicU64, Ordering};
use surefoot_http::ApiError;
use surefoot_http::metrics::{self, Label};
use surefoot_model::{Finding, Room, Severity};
use surefoot_rooms::moment::{Findings, Moment, Now};
use surefoot_rooms::viewer::Private;
use surefoot_rooms::viewer::Viewer;

/// Findings that have a series of their own: the most urgent.
const FINDINGS_MAX: usize = 40;
/// Characters of a subject's name in a label.
const NAME_CHARACTERS_MAX: usize = 128;

/// What one scrape tells, without what the viewer may not see.
pub(crate) struct Scrape {
    viewer: Viewer,
    moment: Moment,
    series: Series,
}

impl Scrape {
    /// Has series written of what the viewer may see of `all`.
    pub(crate) fn write<T: Private>(&mut self, all: T, encode: fn(T, &Moment, &mut Series)) {
        encode(all.seen_by(self.viewer), &self.moment, &mut self.series);
    }
}

/// Everything at one moment.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(crate) fn answer(shared: &Shared, viewer: Viewer, asked: &HeaderMap) -> Result<Response, ApiError> {
    let Now { moment, findings, .. } = shared.now().seen_by(viewer);
    let mut scrape = Scrape { viewer, moment, series: Series::new(shared.extent) };
    for room in &shared.rooms {
        scrape.series.of_room(room.room());
        room.series(&mut scrape);
        let is_watched = room.why_not_watched(&scrape.moment).is_none();
        let help = "Whether the room looks at anything; where it does not, its other series are absent.";
        scrape.series.gauge("watch_room_watched", help).add(&[("room", room.room().as_str())], is_watched);
    }
    let Scrape { moment, mut series, .. } = scrape;
    series.of_room(Room::Watch);
    tell_findings(shared, &findings, &mut series);
    tell_alerts(shared, &mut series);
    if let Some(refused) = shared.refused.get() {
        let help = "Connections and requests at --listen that were turned away, by why.";
        let family = series.counter("watch_listen_refused", help);
        refused.by_reason().for_each(|(why, count)| family.add(&[("why", why.as_str())], count));
    }
    let build = series.info("build", "The version of Surefoot.");
    let version = ("version", env!("CARGO_PKG_VERSION"));
    match moment.mode {
        Mode::Demo { .. } => build.add(&[version, ("data", "demo")], Value::Info),
        _ => build.add(&[version], Value::Info),
    }
    let mut registry = Registry::default();
    registry.register_collector(Box::new(series.within_budget()));
    metrics::answer(&registry, asked)
}

/// How an Alertmanager is told, where one is set.
fn tell_alerts(shared: &Shared, series: &mut Series) {
    if shared.settings.now().settings.alerts.url.is_none() {
        return;
    }
    let counts = &shared.alerts.counts;
    let help = "Whether Alertmanager took the last push of findings.";
    series.gauge("alerts_up", help).add(&[], counts.is_up.load(Ordering::Relaxed));
    let mut count = |name, help, count: &AtomicU64| series.counter(name, help).add(&[], count.load(Ordering::Relaxed));
    count(
        "alerts_pushed",
        "Alerts that Alertmanager took, those that are over or told again included.",
        &counts.pushed,
    );
    count(
        "alerts_failed_pushes",
        "Pushes that Alertmanager did not take; what holds is told in the next one.",
        &counts.failed,
    );
    count("alerts_untold", "Findings that came and went before Alertmanager took a push.", &counts.untold);
}

fn tell_findings(shared: &Shared, findings: &Findings, series: &mut Series) {
    let family = series.gauge("findings", "Findings that hold now, by room and severity.");
    for room in shared.rooms.iter().map(|room| room.room()) {
        for severity in Severity::ALL {
            let is_of = |finding: &&Finding| finding.room == room && finding.severity == severity;
            let count = findings.all.iter().filter(is_of).count();
            family.add(&[("room", room.as_str()), ("severity", severity.as_str())], count as u64);
        }
    }
    let help = "A finding above ok that holds now, with its severity and certainty; the most urgent ones.";
    let family = series.findings("finding", help);
    // What others write must not make series without end.
    let is_trusted = |finding: &&Finding| finding.uid.is_none_or(|uid| shared.trusted.contains(&uid));
    let above_ok = || findings.all.iter().filter(|finding| finding.severity > Severity::Ok);
    let told = above_ok().filter(is_trusted).take(FINDINGS_MAX);
    let mut told_count = 0;
    for (place, finding) in told.enumerate() {
        let subject: String = finding.subject.to_string().chars().take(NAME_CHARACTERS_MAX).collect();
        let labels: &[Label<'_>] = &[
            ("room", finding.room.as_str()),
            ("rule", &finding.rule),
            ("subject", &subject),
            ("severity", finding.severity.as_str()),
            ("certainty", finding.certainty.as_str()),
        ];
        family.of(Claim(place), labels, true);
        told_count = place + 1;
    }
    let help = "Findings above ok without a series: over the limit, or of a user who is not trusted.";
    series.gauge("findings_without_series", help).add(&[], (above_ok().count() - told_count) as u64);
}
