//! /proc/interrupts and /proc/softirqs: how often each interrupt came to each core.

use crate::error::shorten;
use crate::{Error, Root};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use surefoot_model::{CpuId, Digits};

/// A machine with 1,024 cores and 4,000 interrupt lines prints 45 MiB.
const FILE_LIMIT_BYTES: u64 = 128 << 20;

/// How often the file is read again when a core came or went between its header and its rows.
const READ_TRIES: usize = 3;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    /// The line's number, or the three letters of an architecture's own interrupt: `36`, `LOC`, `IPI0`.
    pub label: String,
    /// The description; for a device's line the names of its handlers: `virtio1-req.0`, `ahci[0000:00:1f.2], i801_smbus`.
    pub name: String,
    /// The interrupt controller: `IO-APIC`, `PCI-MSIX-0000:00:02.0`; empty for an architecture's own interrupt.
    pub chip: String,
    /// The controller's input and how it triggers: `1-edge`, `27 Level`; empty when the kernel prints none.
    pub input: String,
    /// One count per core of [`Interrupts::cpus`]; rows such as `ERR` have a single count for the whole machine.
    pub counts: Vec<u64>,
}

/// Whether the counts of the row with this label are interrupts that no other row counts. `ERR` and `MIS` count errors of the
/// controller, and `CAL` counts each `TLB` shootdown among the called functions (Linux 4.8 and later).
pub fn counts_interrupts(label: &str) -> bool {
    !matches!(label, "ERR" | "MIS" | "TLB")
}

impl Row {
    /// Whether this is a device's line and not one of the architecture's own interrupts.
    pub fn is_device(&self) -> bool {
        self.label.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The sum over all cores.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// The whole table, as counts since boot or, from [`Interrupts::delta`], as differences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupts {
    /// The columns. /proc/interrupts has only cores that are online; /proc/softirqs all possible ones.
    pub cpus: Vec<CpuId>,
    /// The lines, in the kernel's order.
    pub rows: Vec<Row>,
    /// Lines that were left out: their columns do not fit the header, as when a core came or went while the kernel was
    /// printing, or an earlier line has their label.
    pub irregular: u32,
}

impl Interrupts {
    /// Reads /proc/interrupts; again when a core came or went meanwhile, three times at most.
    ///
    /// # Errors
    /// When the file cannot be read or has no header.
    pub fn read(root: &Root) -> Result<Self, Error> {
        Self::read_file(root, &root.proc("interrupts"))
    }

    /// Reads /proc/softirqs, whose labels are the vectors: `TIMER`, `NET_RX`.
    ///
    /// # Errors
    /// When the file cannot be read or has no header.
    pub fn read_softirqs(root: &Root) -> Result<Self, Error> {
        Self::read_file(root, &root.proc("softirqs"))
    }

    fn read_file(root: &Root, path: &Path) -> Result<Self, Error> {
        let mut tries = 0;
        loop {
            let table =
                Self::parse(&root.read_again_up_to(path, FILE_LIMIT_BYTES)?).map_err(|error| error.in_file(path))?;
            tries += 1;
            if table.irregular == 0 || tries == READ_TRIES {
                return Ok(table);
            }
        }
    }

    /// Reads the text of either file.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the first line is no list of cores. Lines that do not fit it are counted in
    /// [`Interrupts::irregular`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut lines = text.lines();
        let cpus = header(lines.next().unwrap_or("")).map_err(|reason| {
            // The caller knows the real path.
            Error::malformed("/proc/interrupts", 1, reason)
        })?;
        let mut table = Interrupts { cpus, rows: Vec::new(), irregular: 0 };
        let mut labels = HashSet::new();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match row(line, table.cpus.len()) {
                // A second row of one name would have its counts compared with the first one's.
                Some(row) if labels.insert(label(line)) => table.rows.push(row),
                _ => table.irregular += 1,
            }
        }
        Ok(table)
    }

    /// The row with this label.
    pub fn row(&self, label: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.label == label)
    }

    /// The count of one row on one core; `None` when there is no such row, column or core.
    pub fn count(&self, label: &str, cpu: CpuId) -> Option<u64> {
        let column = self.cpus.iter().position(|&column| column == cpu)?;
        let row = self.row(label)?;
        // A single count for the whole machine belongs to no core, unless there is only one.
        if row.counts.len() == self.cpus.len() { row.counts.get(column).copied() } else { None }
    }

    /// The columns of these cores, found once for all rows.
    pub fn columns(&self, cpus: impl IntoIterator<Item = CpuId>) -> Columns {
        let by_core: HashMap<CpuId, usize> = self.cpus.iter().enumerate().map(|(column, &cpu)| (cpu, column)).collect();
        let known = cpus.into_iter().filter_map(|cpu| Some((cpu, *by_core.get(&cpu)?)));
        Columns { known: known.collect(), all: self.cpus.len() }
    }

    /// What came since `earlier`, for the cores that are in both tables.
    ///
    /// - A core that is only in one of them has no column: its count then is unknown, not zero.
    /// - A row that is only in `self` is new: the kernel shows a line as soon as its count is not zero, so everything
    ///   in it came since. A row that is only in `earlier` is gone.
    /// - The kernel counts in 32 bits. A count that fell went over their end if that makes the rise less than half of
    ///   their range; otherwise the line was freed, given to another device and counts from zero. Nothing underflows.
    pub fn delta(&self, earlier: &Interrupts) -> Interrupts {
        let then_column: HashMap<CpuId, usize> =
            earlier.cpus.iter().enumerate().map(|(column, &cpu)| (cpu, column)).collect();
        let columns: Vec<(usize, usize)> = self
            .cpus
            .iter()
            .enumerate()
            .filter_map(|(now, cpu)| then_column.get(cpu).map(|&then| (now, then)))
            .collect();
        let then_row: HashMap<&str, &Row> = earlier.rows.iter().map(|row| (row.label.as_str(), row)).collect();
        let same_columns = self.cpus == earlier.cpus;
        let rows = self.rows.iter().map(|row| {
            let then = then_row.get(row.label.as_str());
            let before = |column: usize| {
                then.and_then(|then| then.counts.get(if then.counts.len() == 1 { 0 } else { column }))
                    .copied()
                    .unwrap_or(0)
            };
            let counts = if let Some(then) = then.filter(|then| same_columns && then.counts.len() == row.counts.len()) {
                // The usual case, in one go: a large host has half a million counts.
                row.counts.iter().zip(&then.counts).map(|(&now, &before)| rise(now, before)).collect()
            } else if row.counts.len() == self.cpus.len() {
                columns.iter().map(|&(now, then)| rise(row.counts[now], before(then))).collect()
            } else {
                row.counts.iter().enumerate().map(|(column, &now)| rise(now, before(column))).collect()
            };
            let Row { label, name, chip, input, counts: _ } = row;
            Row { label: label.clone(), name: name.clone(), chip: chip.clone(), input: input.clone(), counts }
        });
        Interrupts {
            rows: rows.collect(),
            cpus: columns.iter().map(|&(now, _)| self.cpus[now]).collect(),
            irregular: self.irregular.max(earlier.irregular),
        }
    }
}

/// Where the counts of some cores are in each row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    known: Vec<(CpuId, usize)>,
    all: usize,
}

impl Columns {
    /// The count of each of the cores in a row of the same table; none in a row that counts for the whole machine.
    pub fn counts<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (CpuId, u64)> + 'a {
        let is_by_core = row.counts.len() == self.all;
        let known = if is_by_core { self.known.as_slice() } else { &[] };
        known.iter().map(|&(cpu, column)| (cpu, row.counts[column]))
    }
}

/// How far a 32-bit counter rose, see [`Interrupts::delta`].
fn rise(now: u64, before: u64) -> u64 {
    if now >= before {
        return now - before;
    }
    match (1u64 << 32).checked_sub(before) {
        // Near the end before and near the start now.
        Some(to_the_end) if to_the_end + now < 1 << 31 => to_the_end + now,
        _ => now,
    }
}

fn header(line: &str) -> Result<Vec<CpuId>, String> {
    let cpus: Option<Vec<CpuId>> = line
        .split_ascii_whitespace()
        .map(|word| word.strip_prefix("CPU").and_then(|number| number.digits()).map(CpuId))
        .collect();
    match cpus {
        Some(cpus) if cpus.is_empty() => Err("there is no header with the cores".to_owned()),
        Some(cpus) if !cpus.is_sorted_by(|a, b| a < b) => Err("the cores in the header are not ascending".to_owned()),
        Some(cpus) => Ok(cpus),
        None => Err(format!("'{}' is not a header with the cores", shorten(line.trim()))),
    }
}

/// What stands before the colon.
fn label(line: &str) -> &str {
    line.split_once(':').map_or("", |(label, _)| label.trim())
}

/// One line, or `None` when its columns do not fit.
fn row(line: &str, columns: usize) -> Option<Row> {
    let rest = line.split_once(':')?.1;
    let label = label(line);
    if label.is_empty() || label.contains(char::is_whitespace) {
        return None;
    }
    let mut rest = rest.trim();
    let mut counts = Vec::with_capacity(columns);
    while counts.len() < columns {
        let (word, after) = split_word(rest);
        let Some(count) = word.digits() else { break };
        counts.push(count);
        rest = after;
    }
    let mut row = Row { label: label.to_owned(), counts, ..Row::default() };
    // One count and no text is a count of the whole machine, such as ERR.
    if row.counts.len() != columns && !(row.counts.len() == 1 && rest.is_empty()) {
        return None;
    }
    if row.is_device() {
        describe_device(&mut row, rest)?;
    } else {
        row.name = rest.to_owned();
    }
    Some(row)
}

/// Splits what follows the counts of a device's line, as `show_interrupts` in kernel/irq/proc.c prints it: controller,
/// input number, `-` and the flow handler's name (x86) or `Level`/`Edge` (arm64), then the handlers.
fn describe_device(row: &mut Row, text: &str) -> Option<()> {
    let (first, after_first) = split_word(text);
    // A number here is one column too many.
    if is_number(first) {
        return None;
    }
    let (second, after_second) = split_word(after_first);
    let (third, after_third) = split_word(after_second);
    let fourth = split_word(after_third).0;
    let mut rest = after_first;
    row.chip = first.to_owned();
    if is_input(second) {
        row.input = second.to_owned();
        rest = after_second;
    } else if is_input(third) && (third.contains('-') || is_trigger(fourth)) {
        // Some controllers have two words: `RISC-V INTC`.
        row.chip = format!("{first} {second}");
        row.input = third.to_owned();
        rest = after_third;
    }
    if !row.input.is_empty() {
        let (trigger, after_trigger) = split_word(rest);
        if is_trigger(trigger) {
            row.input = format!("{} {trigger}", row.input);
            rest = after_trigger;
        }
        let (handler, after_handler) = split_word(rest);
        if is_trigger(trigger) && handler.starts_with('-') {
            row.input = format!("{} {handler}", row.input);
            rest = after_handler;
        }
    }
    row.name = rest.to_owned();
    Some(())
}

/// `27` or `1-edge`, and `-event` under Xen, where the number is left out.
fn is_input(word: &str) -> bool {
    match word.split_once('-') {
        Some((number, handler)) => (number.is_empty() || is_number(number)) && !handler.is_empty(),
        None => is_number(word),
    }
}

fn is_trigger(word: &str) -> bool {
    matches!(word, "Level" | "Edge")
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn split_word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim_start()),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn table(cpus: &[u32], rows: &[(&str, &[u64])]) -> Interrupts {
        Interrupts {
            cpus: cpus.iter().copied().map(CpuId).collect(),
            rows: rows
                .iter()
                .map(|(label, counts)| Row { label: (*label).to_owned(), counts: counts.to_vec(), ..Row::default() })
                .collect(),
            irregular: 0,
        }
    }

    #[test]
    fn a_second_row_of_the_same_label_is_left_out() {
        let table = Interrupts::parse("CPU0 CPU1\nLOC: 5 6 Local timer\nLOC: 7 8 Local timer\nERR: 0\n").unwrap();
        assert_eq!((table.rows.len(), table.irregular), (2, 1));
        assert_eq!(table.count("LOC", CpuId(1)), Some(6));
        assert!(table.delta(&table).rows.iter().all(|row| row.total() == 0));
    }

    #[test]
    fn every_way_of_naming_a_device_is_understood() {
        for (text, chip, input, name) in [
            ("IO-APIC   5-edge      ACPI:Ged", "IO-APIC", "5-edge", "ACPI:Ged"),
            (
                "IR-IO-APIC   16-fasteoi   ahci[0000:00:1f.2], i801_smbus",
                "IR-IO-APIC",
                "16-fasteoi",
                "ahci[0000:00:1f.2], i801_smbus",
            ),
            ("GICv3  27 Level     arch_timer", "GICv3", "27 Level", "arch_timer"),
            ("GICv3  25 Level   -fasteoi   vgic", "GICv3", "25 Level -fasteoi", "vgic"),
            ("RISC-V INTC   5 Edge      riscv-timer", "RISC-V INTC", "5 Edge", "riscv-timer"),
            ("xen-dyn    -event     xenbus", "xen-dyn", "-event", "xenbus"),
            ("PCI-MSI-edge      eth0-TxRx-0", "PCI-MSI-edge", "", "eth0-TxRx-0"),
            ("MIPS   7  timer", "MIPS", "7", "timer"),
            ("intel-gpio   12-level     Power Button", "intel-gpio", "12-level", "Power Button"),
            ("IO-APIC   7-edge", "IO-APIC", "7-edge", ""),
            ("None", "None", "", ""),
        ] {
            let row = row(&format!(" 24:  1  2 {text}"), 2).unwrap();
            assert_eq!((row.chip.as_str(), row.input.as_str(), row.name.as_str()), (chip, input, name), "{text}");
            assert_eq!(row.counts, [1, 2]);
        }
    }

    #[test]
    fn lines_that_do_not_fit_the_header_are_counted() {
        let text = "      CPU0       CPU1\n 1: 5 6 IO-APIC 1-edge a\n 2: 5 IO-APIC 2-edge b\n 3: 5 6 7 IO-APIC 3-edge c\n\
                    LOC: 1 2 Local timer interrupts\nERR: 3\nnonsense\n two words: 1 2 x\n";
        let table = Interrupts::parse(text).unwrap();
        assert_eq!(table.irregular, 4);
        assert_eq!(table.rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(), ["1", "LOC", "ERR"]);
        assert_eq!(table.count("LOC", CpuId(1)), Some(2));
        assert_eq!(table.count("ERR", CpuId(0)), None);
        assert_eq!(table.row("ERR").unwrap().total(), 3);
    }

    #[test]
    fn the_columns_of_some_cores_are_those_of_single_counts() {
        let table = table(&[0, 2, 5], &[("LOC", &[1, 2, 3]), ("ERR", &[9])]);
        let columns = table.columns([CpuId(5), CpuId(1), CpuId(0)]);
        let counts = |row: usize| columns.counts(&table.rows[row]).collect::<Vec<_>>();
        assert_eq!(counts(0), [(CpuId(5), 3), (CpuId(0), 1)]);
        assert_eq!(counts(1), []);
    }

    #[test]
    fn a_text_without_a_header_is_refused() {
        for (text, reason) in [
            ("", "there is no header with the cores"),
            ("CPU0 CPU2 CPU1\n", "the cores in the header are not ascending"),
            ("NMI: 1 2\n", "'NMI: 1 2' is not a header with the cores"),
        ] {
            let message = Interrupts::parse(text).unwrap_err().to_string();
            assert_eq!(message, format!("/proc/interrupts, line 1: {reason}"));
        }
    }

    #[test]
    fn a_core_that_came_or_went_has_no_difference() {
        let before = table(&[0, 1, 2], &[("LOC", &[10, 20, 30])]);
        let after = table(&[0, 2, 3], &[("LOC", &[11, 33, 4_000])]);
        let delta = after.delta(&before);
        assert_eq!(delta, table(&[0, 2], &[("LOC", &[1, 3])]));
    }

    #[test]
    fn a_new_row_counts_from_zero_and_a_gone_row_is_left_out() {
        let before = table(&[0, 1], &[("40", &[7, 7]), ("LOC", &[1, 1])]);
        let after = table(&[0, 1], &[("41", &[2, 3]), ("LOC", &[1, 2])]);
        assert_eq!(after.delta(&before), table(&[0, 1], &[("41", &[2, 3]), ("LOC", &[0, 1])]));
    }

    #[test]
    fn a_count_that_fell_wrapped_or_restarted() {
        let before = table(&[0, 1], &[("LOC", &[0xffff_fff0, 5_000])]);
        let after = table(&[0, 1], &[("LOC", &[0x10, 12])]);
        assert_eq!(after.delta(&before), table(&[0, 1], &[("LOC", &[0x20, 12])]));
    }

    #[test]
    fn a_count_of_the_whole_machine_survives_all_cores_but_one_going_offline() {
        let before = table(&[0, 1], &[("ERR", &[5])]);
        let after = table(&[1], &[("ERR", &[6])]);
        assert_eq!(after.delta(&before), table(&[1], &[("ERR", &[1])]));
        assert_eq!(before.delta(&after).row("ERR").unwrap().counts, [5]);
    }
}
