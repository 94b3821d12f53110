//! Lost time as OpenMetrics.

use super::totals::{GAP_EDGES_NS, LostTotals, Totals};
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt::Error;
use surefoot_http::metrics::{Label, counter, seconds};

/// Writes the sums. They are kept as integers and become seconds here, so that no rounding adds up.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub(super) fn encode(totals: &Totals, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let series = Series { totals };
    series.cores(encoder)?;
    series.lost(encoder)?;
    series.raisers(encoder)?;
    series.gaps(encoder)
}

struct Series<'a> {
    totals: &'a Totals,
}

impl Series<'_> {
    fn cores(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Time of each core outside named causes of loss, by state.";
        let mut family = encoder.encode_descriptor("stall_core", help, Some(&Unit::Seconds), MetricType::Counter)?;
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

    fn lost(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Time taken from each core, by cause; nested causes count once.";
        let mut family = encoder.encode_descriptor("stall_lost", help, Some(&Unit::Seconds), MetricType::Counter)?;
        self.each_lost(|labels, lost| counter(&mut family, labels, seconds(lost.total_ns)))?;

        let help = "How often each cause took time from each core.";
        let mut family = encoder.encode_descriptor("stall_lost_events", help, None, MetricType::Counter)?;
        self.each_lost(|labels, lost| counter(&mut family, labels, lost.count))?;

        let help = "The longest single occurrence of each cause since watching began.";
        let mut family = encoder.encode_descriptor("stall_lost_max", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        self.each_lost(|labels, lost| family.encode_family(&labels)?.encode_gauge(&seconds(lost.max_ns)))?;

        let help = "Interrupts that the kernel counted but that have no tracepoint to time them by, by row of \
                    /proc/interrupts.";
        let mut family = encoder.encode_descriptor("stall_untimed_interrupts", help, None, MetricType::Counter)?;
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

    fn raisers(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(lost) = self.totals.raisers_lost() else { return Ok(()) };
        let help = "Interrupts on the cores whose raisers are watched, by how sure it is who raised them.";
        let mut family = encoder.encode_descriptor("stall_raised_interrupts", help, None, MetricType::Counter)?;
        for ((cpu, kind, raiser), count) in self.totals.raised() {
            let labels = [("cpu", &*cpu.to_string()), ("kind", kind.as_str()), ("raiser", raiser)];
            counter(&mut family, &labels, count)?;
        }
        let help = "Records and marks of raised interrupts that were lost before they could be joined.";
        let mut metric = encoder.encode_descriptor("stall_raiser_records_lost", help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&lost, None)?;
        let (deaths, hung) = self.totals.naming().unwrap_or_default();
        let help = "How often the process that reads the files of watched programs ended over one of them.";
        let mut metric = encoder.encode_descriptor("stall_name_reader_deaths", help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&deaths, None)?;
        let help = "Processes that read the files of watched programs and hang, because a file system does not answer.";
        let mut metric = encoder.encode_descriptor("stall_name_readers_hung", help, None, MetricType::Gauge)?;
        metric.encode_gauge(&hung)
    }

    fn gaps(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Gaps found on each core.";
        let mut family = encoder.encode_descriptor("stall_gaps", help, None, MetricType::Counter)?;
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
            encoder.encode_descriptor("stall_gap_duration", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let edges = GAP_EDGES_NS.iter().map(|&edge_ns| seconds(edge_ns)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = edges.zip(self.totals.gap_buckets).collect();
        let count = self.totals.gap_buckets.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
        family.encode_histogram::<NoLabelSet>(seconds(self.totals.gap_ns), count, &buckets, None)
    }
}
