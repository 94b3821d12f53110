//! Completeness: what the probes counted, held against the kernel's own table of interrupts.

use std::collections::HashMap;
use surefoot_hostfs::interrupts::{Interrupts, counts_interrupts};
use surefoot_model::{Completeness, CpuId, Untimed};
use surefoot_probes::Snapshot;
use surefoot_probes::layout::{CAUSE_LOCAL_TIMER, CAUSES, CauseTotals, KEY_DEVICE, VECTORS};

/// Rows that the probes time in another unit: several handlers run in one NMI.
const TIMED_OTHERWISE: [&str; 2] = ["NMI", "PMI"];

/// One core between two snapshots.
pub type Span<'a> = (CpuId, &'a Snapshot, &'a Snapshot);

/// Compares a window's rise of each row with the probes' counts. `timed_rows` are the labels of vectors whose
/// tracepoints are attached; `times_devices` and `times_nmi` say the same of device interrupts and NMIs.
pub fn compare(
    rise: &Interrupts,
    spans: &[Span<'_>],
    timed_rows: &[&str],
    times_devices: bool,
    times_nmi: bool,
) -> (Vec<Completeness>, Vec<Untimed>) {
    let mut complete = Vec::new();
    let mut untimed = Vec::new();
    let columns = rise.columns(spans.iter().map(|(cpu, ..)| *cpu));
    let probed = Probed::of(spans);
    for row in &rise.rows {
        let label = row.label.as_str();
        if !counts_interrupts(label) {
            continue;
        }
        let is_timed = if row.is_device() { times_devices } else { timed_rows.contains(&label) };
        let mut kernel_count = 0;
        for (cpu, count) in columns.counts(row).inspect(|_| work::done(1)) {
            kernel_count += count;
            if !is_timed && count > 0 && !(times_nmi && TIMED_OTHERWISE.contains(&label)) {
                untimed.push(Untimed { cpu, row: row.label.clone(), name: row.name.clone(), count });
            }
        }
        let probe_count = if is_timed { probed.count(label) } else { 0 };
        if is_timed && kernel_count + probe_count > 0 {
            complete.push(Completeness { row: row.label.clone(), kernel_count, probe_count });
        }
    }
    (complete, untimed)
}

/// Interrupts for which the kernel ran no program, since the watch began.
///
/// The kernel's table is read after the cores, so its count leads a little, by another number each time. What was missed
/// never comes back: only a lead that the next window still finds is counted.
#[derive(Debug, Default)]
pub struct Untraced(HashMap<String, Lead>);

/// How far the kernel's count of a row leads ours.
#[derive(Debug, Default)]
struct Lead {
    now: i64,
    counted: i64,
}

impl Untraced {
    /// Takes the rows of a window; returns how many interrupts more are known to have been missed.
    pub fn add(&mut self, rows: &[Completeness]) -> u64 {
        let more = |row: &Completeness| {
            let lead = self.0.entry(row.row.clone()).or_default();
            let before = lead.now;
            let rise = i64::try_from(i128::from(row.kernel_count) - i128::from(row.probe_count)).unwrap_or(0);
            lead.now = before.saturating_add(rise);
            let confirmed = lead.now.min(before);
            let more = confirmed.saturating_sub(lead.counted).max(0);
            lead.counted += more;
            more.unsigned_abs()
        };
        rows.iter().map(more).fold(0, u64::saturating_add)
    }
}

/// What the probes counted on all cores together.
struct Probed {
    vectors: [u64; VECTORS.len()],
    by_key: HashMap<u64, u64>,
}

impl Probed {
    fn of(spans: &[Span<'_>]) -> Self {
        let mut probed = Probed { vectors: [0; VECTORS.len()], by_key: HashMap::new() };
        for (_, earlier, later) in spans {
            work::done(CAUSES);
            for (number, (was, is)) in earlier.slot.causes.iter().zip(&later.slot.causes).enumerate() {
                let count = is.count.saturating_sub(was.count);
                if count == 0 {
                    continue;
                }
                match probed.vectors.get_mut(number.wrapping_sub(CAUSE_LOCAL_TIMER)) {
                    Some(vector) => *vector += count,
                    None if is.kind() == KEY_DEVICE => *probed.by_key.entry(is.key).or_default() += count,
                    None => {}
                }
            }
        }
        probed
    }

    /// The count that belongs to a row.
    fn count(&self, label: &str) -> u64 {
        match label.parse() {
            Ok(line) => self.by_key.get(&CauseTotals::of_key(KEY_DEVICE, line).key).copied().unwrap_or(0),
            Err(_) => VECTORS.iter().zip(self.vectors).filter(|(vector, _)| vector.row == label).map(|(_, n)| n).sum(),
        }
    }
}

/// The work of a comparison, counted in tests: a host has hundreds of cores and thousands of interrupt lines.
mod work {
    #[cfg(test)]
    thread_local! {
        pub(super) static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    #[cfg(test)]
    pub(super) fn done(cells: usize) {
        DONE.set(DONE.get() + cells);
    }

    #[cfg(not(test))]
    pub(super) fn done(_: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_hostfs::interrupts::Row;
    use surefoot_probes::layout::Slot;

    fn snapshot(counts: &[(usize, u64, u64)]) -> Snapshot {
        let mut slot = Box::new(Slot::zeroed());
        for &(number, key, count) in counts {
            slot.causes[number].key = key;
            slot.causes[number].count = count;
        }
        Snapshot { at_ns: 0, slot }
    }

    #[test]
    fn rows_with_a_tracepoint_are_compared_and_the_others_shown_as_untimed() {
        let table = |loc: u64, cal: u64, hyp: u64, nmi: u64, line: u64| {
            let text = format!(
                "           CPU0       CPU1\n 36: {line} 0 PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0\n\
                 NMI: {nmi} 0 Non-maskable interrupts\nLOC: {loc} 5 Local timer interrupts\n\
                 CAL: {cal} 0 Function call interrupts\nTLB: {cal} 0 TLB shootdowns\n\
                 HYP: {hyp} 0 Hypervisor callback interrupts\nERR: 7\n"
            );
            Interrupts::parse(&text).unwrap_or_else(|error| panic!("{error}"))
        };
        let rise = table(110, 30, 4, 2, 8).delta(&table(100, 10, 1, 0, 5));
        let device = CauseTotals::of_key(KEY_DEVICE, 36).key;
        let before = snapshot(&[(3, 0, 50), (5, 0, 1), (6, 0, 2), (40, device, 7)]);
        let after = snapshot(&[(3, 0, 60), (5, 0, 2), (6, 0, 20), (40, device, 10)]);
        let spans = [(CpuId(0), &before, &after)];
        let (complete, untimed) = compare(&rise, &spans, &["LOC", "CAL"], true, true);
        let found: Vec<_> = complete.iter().map(|row| (row.row.as_str(), row.kernel_count, row.probe_count)).collect();
        assert_eq!(found, [("36", 3, 3), ("LOC", 10, 10), ("CAL", 20, 19)]);
        assert_eq!(untimed.len(), 1);
        assert_eq!((untimed[0].row.as_str(), untimed[0].count), ("HYP", 3));
        let (_, untimed) = compare(&rise, &spans, &["LOC", "CAL"], false, false);
        let labels: Vec<_> = untimed.iter().map(|row| row.row.as_str()).collect();
        assert_eq!(labels, ["36", "NMI", "HYP"]);
    }

    #[test]
    fn an_interrupt_without_a_program_is_counted_as_missed_and_a_late_reading_is_not() {
        let mut untraced = Untraced::default();
        let mut window =
            |kernel_count, probe_count| untraced.add(&[Completeness { row: "LOC".into(), kernel_count, probe_count }]);
        // The table was read three interrupts late, and the next time at once.
        assert_eq!((window(253, 250), window(247, 250), window(250, 250)), (0, 0, 0));
        // Two are missed, two more, and one: each is told when the next window has confirmed it.
        assert_eq!((window(252, 250), window(252, 250), window(251, 250), window(250, 250)), (0, 2, 2, 1));
        assert_eq!((window(350, 250), window(150, 250), window(250, 250)), (0, 0, 0));
    }

    /// A host with so many cores and interrupt lines that each line belongs to one core, and all of the timer's row.
    fn large_host(cores: usize, lines: usize, turn: u64) -> Interrupts {
        let row = |label: String, is_there: &dyn Fn(usize) -> bool| Row {
            label,
            name: "nvme0q1".into(),
            chip: "PCI-MSIX-0000:00:02.0".into(),
            input: "1-edge".into(),
            counts: (0..cores).map(|core| if is_there(core) { turn } else { 0 }).collect(),
        };
        let mut rows: Vec<Row> = (0..lines).map(|line| row(line.to_string(), &|core| core == line % cores)).collect();
        rows.push(row("LOC".into(), &|_| true));
        Interrupts { cpus: (0..cores as u32).map(CpuId).collect(), rows, irregular: 0 }
    }

    fn compare_large_host(cores: usize, lines: usize) -> (usize, Vec<Completeness>) {
        let (before, after) = (snapshot(&[]), snapshot(&[(CAUSE_LOCAL_TIMER, 0, 5)]));
        let spans: Vec<Span<'_>> = (0..cores as u32).map(|cpu| (CpuId(cpu), &before, &after)).collect();
        let rise = large_host(cores, lines, 9).delta(&large_host(cores, lines, 4));
        work::DONE.set(0);
        let (complete, _) = compare(&rise, &spans, &["LOC"], true, true);
        (work::DONE.get(), complete)
    }

    #[test]
    fn the_work_of_a_window_grows_with_the_cells_of_the_table_and_no_faster() {
        let (cores, lines) = (256, 2_000);
        let (work, complete) = compare_large_host(cores, lines);
        assert_eq!(complete.len(), lines + 1);
        let timer = complete.iter().find(|row| row.row == "LOC").map(|row| (row.kernel_count, row.probe_count));
        assert_eq!(timer, Some((5 * cores as u64, 5 * cores as u64)));
        assert!(work <= (lines + 1) * cores + cores * CAUSES, "{work}");
    }

    /// Prints how long a window's fold takes on a large host; for people, in a release build.
    #[test]
    #[ignore = "a measurement"]
    fn measure_a_fold_on_a_large_host() {
        let (cores, lines) = (256, 2_000);
        let (earlier, later) = (large_host(cores, lines, 4), large_host(cores, lines, 9));
        let mut before = snapshot(&[]);
        // A busy core has some forty causes in a second.
        let active = CAUSE_LOCAL_TIMER..CAUSE_LOCAL_TIMER + 40;
        let mut after = snapshot(&active.clone().map(|number| (number, 0, 5)).collect::<Vec<_>>());
        (before.at_ns, after.at_ns) = (0, 1_000_000_000);
        after.slot.causes[active].iter_mut().for_each(|cause| cause.total_ns = 1_000_000);
        let spans: Vec<Span<'_>> = (0..cores as u32).map(|cpu| (CpuId(cpu), &before, &after)).collect();
        let start = std::time::Instant::now();
        let rise = later.delta(&earlier);
        let after_delta = start.elapsed();
        let compared = compare(&rise, &spans, &["LOC"], true, true);
        let after_compare = start.elapsed();
        let untimed = crate::ledger::kernel_counters::untimed(&rise, &rise.cpus);
        let after_untimed = start.elapsed();
        let counters = crate::ledger::Counters::default();
        let name = |number: usize, _: &CauseTotals| {
            surefoot_model::Cause::new(surefoot_model::CauseKind::Timer, number.to_string())
        };
        let ledgers: Vec<_> = spans
            .iter()
            .map(|(cpu, was, is)| {
                crate::ledger::core_ledger(*cpu, (was, is), &counters, &[], name, |_| Default::default()).0
            })
            .collect();
        println!(
            "delta {after_delta:?}, compare {:?}, untimed {:?}, ledgers {:?} ({} {} {})",
            after_compare - after_delta,
            after_untimed - after_compare,
            start.elapsed() - after_untimed,
            compared.0.len(),
            untimed.len(),
            ledgers.len()
        );
    }
}
