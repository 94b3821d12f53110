//! The watch itself as OpenMetrics.

use super::state::Totals;
use crate::keep::drops::Dropped;
use crate::keep::stream::Moment;
use crate::sources::SourceStatistics;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_http::metrics::{Label, counter, seconds};

/// Writes everything.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(
    totals: &Totals,
    dropped: &Dropped,
    sources: &[SourceStatistics],
    moment: &Moment,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), Error> {
    own_cost(totals, encoder)?;
    of_sources(sources, encoder)?;
    let help = "Events that were lost, by the place where they were.";
    let mut family = encoder.encode_descriptor("watch_dropped_events", help, None, MetricType::Counter)?;
    for (place, count) in dropped.by_place() {
        counter(&mut family, &[("where", place)], count)?;
    }
    let help = "Age of the newest data; absent before the first.";
    let mut metric = encoder.encode_descriptor("watch_data_age", help, Some(&Unit::Seconds), MetricType::Gauge)?;
    match moment.age_ns {
        Some(age_ns) => metric.encode_gauge(&seconds(age_ns)),
        None => Ok(()),
    }
}

/// What each source has done, as node_exporter tells it of its collectors.
fn of_sources(sources: &[SourceStatistics], encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    type Count = fn(&SourceStatistics) -> f64;
    let help = "Whether the last turn of each source succeeded.";
    let mut family = encoder.encode_descriptor("watch_source_success", help, None, MetricType::Gauge)?;
    for source in sources {
        let labels: &[Label<'_>] = &[("source", source.name)];
        family.encode_family(&labels)?.encode_gauge(&u64::from(!source.is_failed()))?;
    }
    let families: [(&str, &str, Option<&Unit>, Count); 6] = [
        (
            "watch_source_duration",
            "Time within turns of each source, its waiting included.",
            Some(&Unit::Seconds),
            |source| seconds(source.duration_ns()),
        ),
        ("watch_source_turns", "Turns of each source.", None, |source| source.turns() as f64),
        ("watch_source_failures", "Turns of each source that failed.", None, |source| source.failures() as f64),
        ("watch_source_events", "Events that each source handed on.", None, |source| source.events() as f64),
        (
            "watch_source_unread_lines",
            "Lines of journals that each source could not use: torn, too long, or of another release.",
            None,
            |source| source.unread_lines() as f64,
        ),
        ("watch_source_dropped_events", "Events of each source that found its channel full.", None, |source| {
            source.dropped() as f64
        }),
    ];
    for (name, help, unit, count) in families {
        let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for source in sources {
            counter(&mut family, &[("source", source.name)], count(source))?;
        }
    }
    Ok(())
}

fn own_cost(totals: &Totals, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let help = "Time inside each eBPF program of Surefoot, extrapolated from one run in 64.";
    let mut family = encoder.encode_descriptor("watch_probe", help, Some(&Unit::Seconds), MetricType::Counter)?;
    for (name, probe) in &totals.probes {
        counter(&mut family, &[("probe", name)], seconds(probe.total_ns))?;
    }
    let help = "Runs of each eBPF program of Surefoot.";
    let mut family = encoder.encode_descriptor("watch_probe_runs", help, None, MetricType::Counter)?;
    for (name, probe) in &totals.probes {
        counter(&mut family, &[("probe", name)], probe.count)?;
    }
    let help = "Runs that the kernel skipped because the program ran on that core already.";
    let mut family = encoder.encode_descriptor("watch_probe_missed", help, None, MetricType::Counter)?;
    for (name, probe) in &totals.probes {
        counter(&mut family, &[("probe", name)], probe.missed)?;
    }
    let help = "Processor time of Surefoot's own process.";
    let unit = Some(&Unit::Seconds);
    let mut metric = encoder.encode_descriptor("watch_process_cpu", help, unit, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&seconds(totals.process_cpu_ns), None)?;

    let help = "Resident memory of Surefoot's own process.";
    let mut metric = encoder.encode_descriptor("watch_resident", help, Some(&Unit::Bytes), MetricType::Gauge)?;
    metric.encode_gauge(&totals.resident_bytes)?;
    let help = "Memory of Surefoot's eBPF maps.";
    let mut metric = encoder.encode_descriptor("watch_map", help, Some(&Unit::Bytes), MetricType::Gauge)?;
    metric.encode_gauge(&totals.map_bytes)?;

    let help = "Inter-processor interrupts that Surefoot itself raised on watched cores.";
    let mut metric = encoder.encode_descriptor("watch_self_interrupts", help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&totals.self_interrupts, None)?;

    let help =
        "Inter-processor interrupts on watched cores while Surefoot attached its programs; their time is in no ledger.";
    let mut metric = encoder.encode_descriptor("watch_attach_interrupts", help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&totals.attach_interrupts, None)?;

    let help = "Ends of interrupts and switches on watched cores that the kernel did not report; until the next event there \
                the time counts for what ran before.";
    let mut metric = encoder.encode_descriptor("watch_unreported_ends", help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&totals.unreported, None)?;

    let help = "Interrupts of watched cores that the kernel counted and did not trace, at least; their time counts as the \
                work that they interrupted.";
    let mut metric = encoder.encode_descriptor("watch_untraced_interrupts", help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&totals.untraced_interrupts, None)
}
