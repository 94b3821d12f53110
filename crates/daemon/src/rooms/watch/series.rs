//! The watch itself as metrics.

use crate::http::series::{Detail, Series};
use crate::sources::SourceStatistics;
use surefoot_http::metrics::seconds;
use surefoot_model::ProbeCost;
use surefoot_rooms::drops::Dropped;
use surefoot_rooms::moment::Moment;
use surefoot_rooms::watch::state::Totals;

/// Adds everything.
pub(super) fn encode(
    totals: &Totals,
    dropped: &Dropped,
    sources: &[SourceStatistics],
    moment: &Moment,
    series: &mut Series,
) {
    own_cost(totals, series);
    of_sources(sources, series);
    let help = "Events that were lost, by the place where they were.";
    let family = series.counter("watch_dropped_events", help);
    for (place, count) in dropped.by_place() {
        family.add(&[("where", place)], count);
    }
    let help = "Age of the newest data; absent before the first.";
    let family = series.seconds("watch_data_age", help);
    if let Some(age_ns) = moment.age_ns {
        family.add(&[], seconds(age_ns));
    }
}

/// What each source has done, as node_exporter tells it of its collectors. There are as many as this release has.
fn of_sources(sources: &[SourceStatistics], series: &mut Series) {
    type Count = fn(&SourceStatistics) -> u64;
    let is_fine = series.tells(Detail::Core);
    for source in sources {
        let labels = [("source", source.name)];
        let help = "Whether the last turn of each source succeeded.";
        series.gauge("watch_source_success", help).add(&labels, !source.is_failed());
        let mut each = |name, help, count: Count| series.counter(name, help).add(&labels, count(source));
        each("watch_source_failures", "Turns of each source that failed.", |source| source.failures());
        let help = "Lines of journals that each source could not use: torn, too long, or of another release.";
        each("watch_source_unread_lines", help, |source| source.unread_lines());
        if is_fine {
            each("watch_source_turns", "Turns of each source.", |source| source.turns());
            each("watch_source_events", "Events that each source handed on.", |source| source.events());
            let help = "Events of each source that found its channel full.";
            each("watch_source_dropped_events", help, |source| source.dropped());
            let help = "Time within turns of each source, its waiting included.";
            series.seconds_counter("watch_source_duration", help).add(&labels, seconds(source.duration_ns()));
        }
    }
}

fn own_cost(totals: &Totals, series: &mut Series) {
    let sum = |of: fn(&ProbeCost) -> u64| totals.probes.values().map(of).fold(0, u64::saturating_add);
    let help = "Time inside all eBPF programs of Surefoot, extrapolated from one run in 64.";
    series.seconds_counter("watch_programs", help).add(&[], seconds(sum(|probe| probe.total_ns)));
    let help = "Runs of all eBPF programs of Surefoot.";
    series.counter("watch_program_runs", help).add(&[], sum(|probe| probe.count));
    let help = "Runs that the kernel skipped because the program ran on that core already.";
    series.counter("watch_program_missed", help).add(&[], sum(|probe| probe.missed));
    if series.tells(Detail::Core) {
        for (name, probe) in &totals.probes {
            let labels = [("probe", name.as_str())];
            let help = "Time inside each eBPF program of Surefoot, extrapolated from one run in 64.";
            series.seconds_counter("watch_probe", help).add(&labels, seconds(probe.total_ns));
            series.counter("watch_probe_runs", "Runs of each eBPF program of Surefoot.").add(&labels, probe.count);
            let help = "Runs of each program that the kernel skipped because it ran on that core already.";
            series.counter("watch_probe_missed", help).add(&labels, probe.missed);
        }
    }
    let help = "Processor time of Surefoot's own process.";
    series.seconds_counter("watch_process_cpu", help).add(&[], seconds(totals.process_cpu_ns));
    let help = "Resident memory of Surefoot's own process.";
    series.bytes("watch_resident", help).add(&[], totals.resident_bytes);
    series.bytes("watch_map", "Memory of Surefoot's eBPF maps.").add(&[], totals.map_bytes);
    let help = "Inter-processor interrupts that Surefoot itself raised on watched cores.";
    series.counter("watch_self_interrupts", help).add(&[], totals.self_interrupts);
    let help =
        "Inter-processor interrupts on watched cores while Surefoot attached its programs; their time is in no ledger.";
    series.counter("watch_attach_interrupts", help).add(&[], totals.attach_interrupts);
    let help = "Ends of interrupts and switches on watched cores that the kernel did not report; until the next event there \
                the time counts for what ran before.";
    series.counter("watch_unreported_ends", help).add(&[], totals.unreported);
    let help = "Interrupts of watched cores that the kernel counted and did not trace, at least; their time counts as the \
                work that they interrupted.";
    series.counter("watch_untraced_interrupts", help).add(&[], totals.untraced_interrupts);
}
