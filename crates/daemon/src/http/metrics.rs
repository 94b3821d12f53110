//! /metrics: the families of all rooms, in OpenMetrics.

use super::access::Viewer;
use crate::keep::board::Findings;
use crate::keep::shared::Shared;
use crate::keep::stream::Moment;
use crate::rooms::Room;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeSet;
use std::fmt::{self, Error};
use std::sync::Arc;
use surefoot_http::ApiError;
use surefoot_http::metrics::{self, Label};
use surefoot_model::{Finding, Severity};

/// Findings that have a series of their own: the most urgent.
const FINDINGS_MAX: usize = 100;
/// Characters of a subject's name in a label.
const NAME_CHARACTERS_MAX: usize = 128;

/// Everything at one moment.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(crate) fn answer(shared: &Shared, viewer: Viewer) -> Result<Response, ApiError> {
    let moment = shared.moment();
    let findings = shared.findings_for(&moment, viewer);
    let mut registry = Registry::with_prefix("surefoot");
    registry.register_collector(Box::new(Scrape {
        rooms: shared.rooms.clone(),
        trusted: shared.trusted.clone(),
        viewer,
        moment,
        findings,
    }));
    metrics::answer(&registry)
}

struct Scrape {
    rooms: Vec<Arc<dyn Room>>,
    trusted: BTreeSet<u32>,
    viewer: Viewer,
    moment: Moment,
    findings: Findings,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").field("findings", &self.findings).finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let encoder = &mut encoder;
        for room in &self.rooms {
            room.series(&self.moment, self.viewer, encoder)?;
        }
        self.findings(encoder)?;
        let help = "The version of Surefoot.";
        let mut metric = encoder.encode_descriptor("build", help, None, MetricType::Info)?;
        metric.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

impl Scrape {
    fn findings(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Findings that hold now, by room and severity.";
        let mut family = encoder.encode_descriptor("findings", help, None, MetricType::Gauge)?;
        for room in self.rooms.iter().map(|room| room.room()) {
            for severity in Severity::ALL {
                let is_of = |finding: &&Finding| finding.room == room && finding.severity == severity;
                let count = self.findings.all.iter().filter(is_of).count();
                let labels: &[Label<'_>] = &[("room", room.as_str()), ("severity", severity.as_str())];
                family.encode_family(&labels)?.encode_gauge(&(count as u64))?;
            }
        }
        let help = "Each finding above ok, the most urgent first: 1 is a notice, 2 a warning, 3 critical.";
        let mut family = encoder.encode_descriptor("finding_severity", help, None, MetricType::Gauge)?;
        // What others write must not make series without end.
        let is_trusted = |finding: &&Finding| finding.uid.is_none_or(|uid| self.trusted.contains(&uid));
        let above_ok = self.findings.all.iter().filter(|finding| finding.severity > Severity::Ok);
        let told = above_ok.filter(is_trusted).take(FINDINGS_MAX);
        for finding in told {
            let name: String = finding.subject.name.chars().take(NAME_CHARACTERS_MAX).collect();
            let labels: &[Label<'_>] = &[
                ("room", finding.room.as_str()),
                ("rule", &finding.rule),
                ("subject", finding.subject.kind.as_str()),
                ("name", &name),
            ];
            family.encode_family(&labels)?.encode_gauge(&u64::from(finding.severity as u8))?;
        }
        Ok(())
    }
}
