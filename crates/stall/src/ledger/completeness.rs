//! Completeness: what the probes counted, held against the kernel's own table of interrupts.

use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::{Completeness, CpuId, Untimed};
use surefoot_probes::Snapshot;
use surefoot_probes::layout::{CAUSE_LOCAL_TIMER, CAUSES, KEY_DEVICE, VECTORS};

/// Rows that count errors of the controller rather than interrupts of a core.
const NOT_INTERRUPTS: [&str; 2] = ["ERR", "MIS"];

/// Rows that are counted inside another one: a shootdown is one of the functions that CAL counts.
const INSIDE_ANOTHER: [&str; 1] = ["TLB"];

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
    for row in &rise.rows {
        let label = row.label.as_str();
        if NOT_INTERRUPTS.contains(&label) || INSIDE_ANOTHER.contains(&label) {
            continue;
        }
        let is_timed = if row.is_device() { times_devices } else { timed_rows.contains(&label) };
        let mut kernel_count = 0;
        for (cpu, ..) in spans {
            let count = rise.count(label, *cpu).unwrap_or(0);
            kernel_count += count;
            if !is_timed && count > 0 && !(times_nmi && TIMED_OTHERWISE.contains(&label)) {
                untimed.push(Untimed { cpu: *cpu, row: row.label.clone(), name: row.name.clone(), count });
            }
        }
        let probe_count = if is_timed { probe_count(label, spans) } else { 0 };
        if is_timed && kernel_count + probe_count > 0 {
            complete.push(Completeness { row: row.label.clone(), kernel_count, probe_count });
        }
    }
    (complete, untimed)
}

fn probe_count(label: &str, spans: &[Span<'_>]) -> u64 {
    let belongs = |number: usize, key: u64| match label.parse::<u64>() {
        Ok(line) => key == u64::from(KEY_DEVICE) << 56 | line,
        Err(_) => {
            let vector = number.wrapping_sub(CAUSE_LOCAL_TIMER);
            VECTORS.get(vector).is_some_and(|vector| vector.row == label)
        }
    };
    spans
        .iter()
        .flat_map(|(_, earlier, later)| (0..CAUSES).map(move |number| (number, *earlier, *later)))
        .filter(|(number, _, later)| belongs(*number, later.slot.causes[*number].key))
        .map(|(number, earlier, later)| {
            later.slot.causes[number].count.saturating_sub(earlier.slot.causes[number].count)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let device = u64::from(KEY_DEVICE) << 56 | 36;
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
}
