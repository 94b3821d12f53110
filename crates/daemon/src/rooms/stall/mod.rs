//! Lost time: how much each core lost, to what, and who raised it.

mod question;
mod series;
mod source;

pub use source::{source, switched_off};

use crate::config::Config;
use crate::http::metrics::Scrape;
use crate::rooms::{Chart, NowValue, Room, Route};
use std::sync::{Arc, Mutex};
use surefoot_http::json_text;
use surefoot_http::lock;
use surefoot_model::{Event, Finding, LostRate};
use surefoot_rooms::drops::Drops;
use surefoot_rooms::moment::Moment;
use surefoot_rooms::stall::view::{ReportView, SnapshotView};
use surefoot_rooms::stall::who::WhoAnswer;
use surefoot_rooms::stall::{Kept, State, findings};
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Public, Seen};
use surefoot_rooms::{CHART_POINTS_MAX, Taken};

/// What each of its addresses answers.
const SNAPSHOT_SAYS: &str = "Lost time: what is kept of the last minutes.";
const REPORT_SAYS: &str = "Lost time, summed up over a stretch of time.";
const WHO_SAYS: &str = "Who interrupted the watched cores.";

/// What its routes answer, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    use crate::schema::answer;
    vec![
        answer::<SnapshotView<'_>>(of, "GET /api/v1/snapshot", SNAPSHOT_SAYS),
        answer::<ReportView<'_>>(of, "GET /api/v1/report", REPORT_SAYS),
        answer::<WhoAnswer<'_>>(of, "GET /api/v1/who", WHO_SAYS),
    ]
}

/// The room of lost time.
pub(crate) struct Stall {
    state: Mutex<State>,
}

impl Stall {
    pub(crate) fn new(config: &Config, drops: Arc<Drops>) -> Self {
        Stall { state: Mutex::new(State::new(config.keep_windows, config.keep_gaps, drops)) }
    }
}

/// Why there is nothing to say yet.
const NO_WINDOW: &str = "the first second of lost time has not been recorded yet";

impl Room for Stall {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Stall
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        lock(&self.state).take(event)
    }

    fn findings(&self, moment: &Moment) -> Vec<Finding> {
        let kept = lock(&self.state).kept();
        findings::of_kept(&kept, moment)
    }

    fn lost(&self, moment: &Moment) -> Option<LostRate> {
        let kept = lock(&self.state).kept();
        findings::lost(&kept, moment)
    }

    fn why_unseen(&self, _: &Moment) -> Option<String> {
        // Without a window nothing was seen, which is not that nothing was lost.
        (lock(&self.state).kept().end_ns() == 0).then(|| NO_WINDOW.to_owned())
    }

    fn series(&self, scrape: &mut Scrape) {
        let totals = lock(&self.state).totals().clone();
        scrape.write(totals, |totals, _, series| series::encode(&totals, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        let of = Arc::clone(&self);
        let kept = move || lock(&of.state).kept();
        let (snapshot, report) = (kept.clone(), kept);
        vec![
            Route::new("/api/v1/snapshot", SNAPSHOT_SAYS, move |shared, viewer, uri| {
                let all = (shared.now(), snapshot(), Public(uri));
                let answer = viewer.show(all, |(now, kept, Public(uri))| {
                    let filter = question::of_lost_time(uri, now.moment.watched())?;
                    Ok(json_text(&SnapshotView::of(&now, &kept, &filter)))
                });
                answer.transpose()
            }),
            Route::new("/api/v1/report", REPORT_SAYS, move |shared, viewer, uri| {
                let all = (shared.now(), report(), Public(uri));
                let answer = viewer.show(all, |(now, kept, Public(uri))| {
                    let filter = question::of_lost_time(uri, now.moment.watched())?;
                    Ok(json_text(&ReportView::of(&now, &kept, &filter)))
                });
                answer.transpose()
            }),
            Route::new("/api/v1/who", WHO_SAYS, move |shared, viewer, uri| {
                // Of the range before it is known what the viewer sees: what is not shown has counts, too.
                let range_ns = question::range_of_interrupts(uri);
                let raisers = lock(&self.state).raisers(range_ns);
                let kept = Kept::of_raisers(raisers);
                let all = (shared.now(), kept, Public(uri));
                let answer = viewer.show(all, |(now, kept, Public(uri))| {
                    let filter = question::of_interrupts(uri, now.moment.watched())?;
                    Ok(json_text(&WhoAnswer::of(&now, &kept, &filter)))
                });
                answer.transpose()
            }),
        ]
    }

    fn chart(&self, moment: &Moment, viewer: Viewer) -> Seen<Option<Chart>> {
        let kept = lock(&self.state).kept();
        let newest = kept.windows().rev().take(CHART_POINTS_MAX).map(|window| {
            let lost_ns = window
                .cores
                .iter()
                .fold(0u64, |sum, core| sum.saturating_add(core.lost_ns()).saturating_add(core.unexplained_ns));
            let seconds = window.end_ns.saturating_sub(window.start_ns).max(1) as f64 / 1e9;
            (moment.clock.realtime_ns(window.end_ns), (lost_ns as f64 / seconds).round())
        });
        let mut points: Vec<(u64, f64)> = newest.collect();
        points.reverse();
        viewer.show(Public(points), |Public(points)| {
            (!points.is_empty()).then_some(Chart {
                title: "Lost and unexplained per second, all cores",
                unit: "ns_per_s",
                points,
                now: NowValue::Last,
            })
        })
    }
}
