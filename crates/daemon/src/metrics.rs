use crate::checkpoints::{self, Answer};
use crate::state::Dropped;
use crate::totals::{GAP_EDGES_NS, LostTotals, Totals};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Error;
use std::sync::Arc;
use std::time::Duration;

/// The media type of the OpenMetrics text format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The sums at one moment, as OpenMetrics text.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(crate) fn encode(
    totals: Totals,
    dropped: Dropped,
    age: Option<Duration>,
    checkpoints: Arc<Answer>,
) -> Result<String, Error> {
    let mut registry = Registry::with_prefix("surefoot");
    registry.register_collector(Box::new(Scrape { totals, dropped, age, checkpoints }));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Sums are kept as integers and become seconds here, so that no rounding adds up.
#[derive(Debug)]
struct Scrape {
    totals: Totals,
    dropped: Dropped,
    age: Option<Duration>,
    checkpoints: Arc<Answer>,
}

/// A label and its value.
type Label<'a> = (&'static str, &'a str);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let encoder = &mut encoder;
        self.cores(encoder)?;
        self.lost(encoder)?;
        self.raisers(encoder)?;
        self.gaps(encoder)?;
        self.own_cost(encoder)?;
        checkpoints::encode(&self.checkpoints, encoder)?;
        self.health(encoder)
    }
}

impl Scrape {
    fn cores(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "Time of each core outside named causes of loss, by state.";
        let mut family = encoder.encode_descriptor("core", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for (cpu, core) in &self.totals.cores {
            let states = [
                ("idle", core.idle_ns),
                ("user", core.user_ns),
                ("kernel", core.kernel_ns),
                ("unexplained", core.unexplained_ns),
            ];
            for (state, total_ns) in states {
                counter(&mut family, &[("cpu", &cpu.to_string()), ("state", state)], seconds(total_ns))?;
            }
        }
        Ok(())
    }

    fn lost(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "Time taken from each core, by cause; nested causes count once.";
        let mut family = encoder.encode_descriptor("lost", help, Some(&Unit::Seconds), MetricType::Counter)?;
        self.each_lost(|labels, lost| counter(&mut family, labels, seconds(lost.total_ns)))?;

        let help = "How often each cause took time from each core.";
        let mut family = encoder.encode_descriptor("lost_events", help, None, MetricType::Counter)?;
        self.each_lost(|labels, lost| counter(&mut family, labels, lost.count))?;

        let help = "The longest single occurrence of each cause since watching began.";
        let mut family = encoder.encode_descriptor("lost_max", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        self.each_lost(|labels, lost| family.encode_family(&labels)?.encode_gauge(&seconds(lost.max_ns)))?;

        let help = "Interrupts that the kernel counted but that have no tracepoint to time them by, by row of \
                    /proc/interrupts.";
        let mut family = encoder.encode_descriptor("untimed_interrupts", help, None, MetricType::Counter)?;
        for ((cpu, row), &count) in &self.totals.untimed {
            counter(&mut family, &[("cpu", &cpu.to_string()), ("row", row)], count)?;
        }
        Ok(())
    }

    fn each_lost(&self, mut emit: impl FnMut(&[Label<'_>], &LostTotals) -> Result<(), Error>) -> Result<(), Error> {
        for (cpu, core) in &self.totals.cores {
            let cpu = cpu.to_string();
            for ((kind, name), lost) in &core.lost {
                emit(&[("cpu", &cpu), ("kind", kind.as_str()), ("name", name)], lost)?;
            }
        }
        Ok(())
    }

    fn raisers(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let Some(lost) = self.totals.raisers_lost else { return Ok(()) };
        let help = "Interrupts on the cores whose raisers are watched, by how sure it is who raised them.";
        let mut family = encoder.encode_descriptor("raised_interrupts", help, None, MetricType::Counter)?;
        for ((cpu, kind, raiser), &count) in &self.totals.raised {
            let labels = [("cpu", &*cpu.to_string()), ("kind", kind.as_str()), ("raiser", raiser)];
            counter(&mut family, &labels, count)?;
        }
        let help = "Records and marks of raised interrupts that were lost before they could be joined.";
        let mut metric = encoder.encode_descriptor("raiser_records_lost", help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&lost, None)
    }

    fn gaps(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "Gaps found on each core.";
        let mut family = encoder.encode_descriptor("gaps", help, None, MetricType::Counter)?;
        for (key, &count) in &self.totals.gaps {
            let cpu = key.cpu.to_string();
            let labels = [
                ("cpu", cpu.as_str()),
                ("source", &key.source),
                ("verdict", &key.verdict),
                ("certainty", &key.certainty),
            ];
            counter(&mut family, &labels, count)?;
        }
        let help = "How long gaps lasted, over all cores.";
        let mut family =
            encoder.encode_descriptor("gap_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let edges = GAP_EDGES_NS.iter().map(|&edge_ns| seconds(edge_ns)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = edges.zip(self.totals.gap_buckets).collect();
        let count = self.totals.gap_buckets.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
        family.encode_histogram::<NoLabelSet>(seconds(self.totals.gap_ns), count, &buckets, None)
    }

    fn own_cost(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "Time inside each eBPF program of Surefoot, extrapolated from one run in 64.";
        let mut family = encoder.encode_descriptor("probe", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for (name, probe) in &self.totals.probes {
            counter(&mut family, &[("probe", name)], seconds(probe.total_ns))?;
        }
        let help = "Runs of each eBPF program of Surefoot.";
        let mut family = encoder.encode_descriptor("probe_runs", help, None, MetricType::Counter)?;
        for (name, probe) in &self.totals.probes {
            counter(&mut family, &[("probe", name)], probe.count)?;
        }
        let help = "Runs that the kernel skipped because the program ran on that core already.";
        let mut family = encoder.encode_descriptor("probe_missed", help, None, MetricType::Counter)?;
        for (name, probe) in &self.totals.probes {
            counter(&mut family, &[("probe", name)], probe.missed)?;
        }
        let help = "Processor time of Surefoot's own process.";
        let unit = Some(&Unit::Seconds);
        let mut metric = encoder.encode_descriptor("process_cpu", help, unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&seconds(self.totals.process_cpu_ns), None)?;

        let help = "Resident memory of Surefoot's own process.";
        let mut metric = encoder.encode_descriptor("resident", help, Some(&Unit::Bytes), MetricType::Gauge)?;
        metric.encode_gauge(&self.totals.resident_bytes)?;
        let help = "Memory of Surefoot's eBPF maps.";
        let mut metric = encoder.encode_descriptor("map", help, Some(&Unit::Bytes), MetricType::Gauge)?;
        metric.encode_gauge(&self.totals.map_bytes)?;

        let help = "Inter-processor interrupts that Surefoot itself raised on watched cores.";
        let mut metric = encoder.encode_descriptor("self_interrupts", help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&self.totals.self_interrupts, None)?;

        let help = "Ends of interrupts and switches on watched cores that the kernel did not report; until the next event there \
                    the time counts for what ran before.";
        let mut metric = encoder.encode_descriptor("unreported_ends", help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&self.totals.unreported, None)
    }

    fn health(&self, encoder: &mut DescriptorEncoder) -> Result<(), Error> {
        let help = "Events that were lost, by the place where they were.";
        let mut family = encoder.encode_descriptor("dropped_events", help, None, MetricType::Counter)?;
        let dropped = &self.dropped;
        let places = [
            ("kernel", dropped.kernel),
            ("torn", dropped.torn),
            ("queue", dropped.queue),
            ("history", dropped.history),
            ("live", dropped.live),
            ("short_gaps", dropped.short_gaps),
            ("oversized", dropped.oversized),
            ("health", dropped.health),
        ];
        for (place, count) in places {
            counter(&mut family, &[("where", place)], count)?;
        }
        let help = "Age of the newest window; absent before the first.";
        let mut metric = encoder.encode_descriptor("data_age", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        if let Some(age) = self.age {
            metric.encode_gauge(&age.as_secs_f64())?;
        }
        let help = "The version of Surefoot.";
        let mut metric = encoder.encode_descriptor("build", help, None, MetricType::Info)?;
        metric.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }
}

fn counter(family: &mut MetricEncoder<'_>, labels: &[Label<'_>], value: impl EncodeCounterValue) -> Result<(), Error> {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

fn seconds(duration_ns: u64) -> f64 {
    duration_ns as f64 / 1e9
}
