//! `/api/v1/overview`: what all rooms find, a card for each.

use super::access::AccessView;
use crate::config::{Mode, Stop};
use crate::keep::shared::Shared;
use crate::rooms::{Chart, Room};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use surefoot_hostfs::cpus;
use surefoot_model::{Finding, Headline, HostDescription, SCHEMA, Severity};
use surefoot_rooms::moment::Now;
use surefoot_rooms::rules::{self, Next};
use surefoot_rooms::stall::view::{Origin, OriginMode};
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Public, Seen};

/// Findings of one card: the most urgent.
const FINDINGS_PER_ROOM_MAX: usize = 100;

/// What all rooms find, a card for each.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Overview {
    schema: u32,
    /// The version of Surefoot.
    version: &'static str,
    mode: OriginMode,
    /// The file that is replayed.
    recording: Option<String>,
    /// Now, `CLOCK_REALTIME`; in a replay the end of the data.
    now_realtime_ns: u64,
    /// Age of the newest data; `null` before the first.
    age_ns: Option<u64>,
    /// `null` until it is known.
    host: Option<HostDescription>,
    headline: Headline,
    /// What the one who asks may see.
    access: AccessView,
    /// In the order of the page.
    rooms: Vec<Card>,
    /// Where to look in a demo; empty otherwise.
    tour: Vec<Stop>,
}

/// What one room finds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RoomOverview")]
struct Card {
    room: surefoot_model::Room,
    title: &'static str,
    /// The worst severity of its findings.
    severity: Severity,
    /// Whether that asks somebody to act.
    needs_action: bool,
    is_watched: bool,
    /// Why it is not watched, and what to do; empty where it is.
    why: String,
    /// The most urgent first, those that are well at the end.
    findings: Vec<Told>,
    /// Findings beyond those.
    findings_left_out: u64,
    chart: Option<Chart>,
}

/// A finding, with what to run on its account.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ToldFinding")]
struct Told {
    #[serde(flatten)]
    finding: Finding,
    /// `null` where no command helps.
    next: Option<Next>,
}

/// What one room says of itself, and its chart.
type OfRoom = (surefoot_model::Room, Option<String>, Seen<Option<Chart>>);

impl Overview {
    pub(crate) fn of(shared: &Shared, viewer: Viewer) -> Seen<Overview> {
        let now = shared.now();
        let of_room =
            |room: &Arc<dyn Room>| (room.room(), room.why_not_watched(&now.moment), room.chart(&now.moment, viewer));
        let rooms: Vec<OfRoom> = shared.rooms.iter().map(of_room).collect();
        viewer.show((now, Public((rooms, shared.access.view(viewer)))), |(now, Public((rooms, access)))| {
            Overview::made(now, rooms, access)
        })
    }

    fn made(now: Now, rooms: Vec<OfRoom>, access: AccessView) -> Self {
        let Now { moment, findings, .. } = now;
        let cores = moment.host.as_ref().map_or(String::new(), |host| cpus::format_list(&host.cpus));
        let card = |(room, why, chart): OfRoom| {
            let mut own: Vec<Finding> = findings.all.iter().filter(|finding| finding.room == room).cloned().collect();
            let left_out = own.len().saturating_sub(FINDINGS_PER_ROOM_MAX) as u64;
            own.truncate(FINDINGS_PER_ROOM_MAX);
            let severity = own.first().map_or(Severity::Ok, |worst| worst.severity);
            let told = |finding: Finding| Told { next: rules::next(&finding, &cores), finding };
            Card {
                room,
                title: room.label(),
                severity,
                needs_action: severity.needs_action(),
                is_watched: why.is_none(),
                why: why.unwrap_or_default(),
                findings: own.into_iter().map(told).collect(),
                findings_left_out: left_out,
                chart: chart.into_answer(),
            }
        };
        let origin = Origin::of(&moment.mode);
        Overview {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            mode: origin.mode,
            recording: origin.recording.map(str::to_owned),
            now_realtime_ns: moment.now_realtime_ns,
            age_ns: moment.age_ns,
            headline: findings.headline.clone(),
            access,
            rooms: rooms.into_iter().map(card).collect(),
            tour: if let Mode::Demo { tour } = &moment.mode { tour.clone() } else { Vec::new() },
            host: moment.host,
        }
    }
}
