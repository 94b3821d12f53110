//! What holds for any text and any table.

use super::golden::{archive, machines};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::LazyLock;
use surefoot_hostfs::cpus::{format_list, parse_list};
use surefoot_hostfs::identity::{Identity, hypervisor_name};
use surefoot_hostfs::interrupts::{Interrupts, Row};
use surefoot_hostfs::privilege::{Lockdown, Privilege};
use surefoot_hostfs::stat::{Stat, Ticks};
use surefoot_hostfs::symbols::Symbols;
use surefoot_hostfs::tracefs::Format;
use surefoot_hostfs::{Root, cpus, usage};
use surefoot_model::CpuId;
use surefoot_testkit::{Archive, HostTree};

/// Gives a text to every parser. None may panic; a table that is read must be one.
fn parse_all(text: &str) {
    if let Ok(table) = Interrupts::parse(text) {
        assert!(table.cpus.is_sorted_by(|a, b| a < b));
        assert!(table.rows.iter().all(|row| row.counts.len() == table.cpus.len() || row.counts.len() == 1));
        assert!(table.delta(&table).rows.iter().all(|row| row.total() == 0));
        for row in &table.rows {
            let _ = table.count(&row.label, table.cpus[0]);
        }
    }
    if let Ok(stat) = Stat::parse(text, 100) {
        assert!(!stat.cpus.is_empty());
        for (_, ticks) in &stat.cpus {
            let _ = stat.ns(ticks.total());
        }
    }
    let _ = Format::parse(text);
    let _ = Lockdown::parse(text);
    let _ = hypervisor_name(text);
    if let Ok(symbols) = Symbols::from_reader(text.as_bytes(), std::path::Path::new("kallsyms")) {
        let _ = (symbols.name(0), symbols.name(u64::MAX), symbols.name(0xffff_ffff_8100_0000));
    }
    match parse_list(text) {
        Ok(list) => assert!(!list.is_empty()),
        Err(error) => assert!(error.to_string().len() < 1_000),
    }
}

/// Texts that look like the real ones, so that arbitrary changes reach the inner branches.
fn recorded_texts() -> &'static [String] {
    static TEXTS: LazyLock<Vec<String>> = LazyLock::new(read_recorded_texts);
    &TEXTS
}

fn read_recorded_texts() -> Vec<String> {
    let files = [
        "proc/interrupts",
        "proc/softirqs",
        "proc/stat",
        "proc/kallsyms",
        "proc/cpuinfo",
        "proc/self/status",
        "sys/devices/system/cpu/online",
        "sys/kernel/tracing/events/sched/sched_switch/format",
    ];
    let machines = machines().into_iter().map(|machine| std::fs::read_to_string(archive(&machine)).unwrap());
    let machines: Vec<Archive> = machines.map(|text| Archive::parse(&text).unwrap()).collect();
    let found = machines.iter().flat_map(|machine| files.map(|file| machine.file(file)));
    let texts: Vec<String> = found.flatten().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
    assert!(texts.len() >= 6 * machines.len(), "{} of {} machines", texts.len(), machines.len());
    texts
}

/// A whole host whose every small file holds this text.
fn read_whole_host(text: &[u8]) {
    let tree = HostTree::new()
        .file("proc/cpuinfo", text)
        .file("proc/cmdline", text)
        .file("proc/interrupts", text)
        .file("proc/1/cgroup", text)
        .file("proc/self/status", text)
        .file("proc/self/uid_map", text)
        .file("proc/self/statm", text)
        .file("proc/sys/kernel/hostname", text)
        .file("sys/hypervisor/type", text)
        .file("sys/kernel/security/lockdown", text)
        .file("sys/devices/system/cpu/online", text);
    let root = Root::at(tree.path());
    let identity = Identity::read(&root);
    let _ = identity.boot_option("isolcpus");
    let _ = (Privilege::read(&root), cpus::online(&root), usage::resident_bytes(&root), Interrupts::read(&root));
}

proptest! {
    #[test]
    fn no_parser_panics_on_any_text(text in any::<String>()) {
        parse_all(&text);
    }

    #[test]
    fn no_parser_panics_on_lines_of_the_right_words(
        words in prop::collection::vec(prop::sample::select(vec![
            "CPU0", "CPU1", "CPU4294967296", "\n", "\n", " ", ":", "LOC:", "1:", "ERR:", "-", "--", "[", "]", "0", "7",
            "18446744073709551615", "99999999999999999999", "cpu0", "cpu1", "cpu", "Level", "-edge", "IO-APIC", ",",
            "field:", "offset:", "size:", ";", "char x[16]", "[16]", "ID:", "name:", "T", "t", "ffffffff81000000", "\"", "é",
            "0-65535", "65535-0", "\t", "\0",
        ]), 0..60)
    ) {
        parse_all(&words.join(" "));
        parse_all(&words.concat());
    }

    #[test]
    fn no_parser_panics_on_damaged_recordings(
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        change in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = which.get(recorded_texts()).clone().into_bytes();
        let change = change.index(bytes.len());
        bytes[change] = byte;
        bytes.truncate(cut.index(bytes.len()));
        parse_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn lists_of_cores_come_back_as_they_were(mut cores in prop::collection::vec(0u32..=65_535, 1..200)) {
        let given: Vec<CpuId> = cores.iter().copied().map(CpuId).collect();
        cores.sort_unstable();
        cores.dedup();
        let expected: Vec<CpuId> = cores.into_iter().map(CpuId).collect();
        let list = format_list(&given);
        prop_assert_eq!(parse_list(&list).unwrap(), expected.clone());
        // The list is the shortest one: writing what was read gives the same text.
        prop_assert_eq!(format_list(&expected), list);
    }

    #[test]
    fn neighbouring_cores_become_ranges(first in 0u32..60_000, length in 2u32..500) {
        let cores: Vec<CpuId> = (first..first + length).map(CpuId).collect();
        prop_assert_eq!(format_list(&cores), format!("{first}-{}", first + length - 1));
    }

    #[test]
    fn a_table_printed_as_the_kernel_does_reads_back(table in tables()) {
        let read = Interrupts::parse(&print(&table)).unwrap();
        prop_assert_eq!(read, table);
    }

    /// The truth is known here: every core has an endless counter of which the table shows the low 32 bits, and cores
    /// and rows come and go between two readings.
    #[test]
    fn differences_are_the_truth_whatever_comes_and_goes(
        start in prop::collection::vec(prop::collection::vec(0u64..1 << 33, 4), 3),
        rise in prop::collection::vec(prop::collection::vec(0u64..1 << 30, 4), 3),
        online in prop::collection::vec((any::<bool>(), any::<bool>()), 4),
        gone in prop::collection::vec(any::<bool>(), 3),
    ) {
        let shown = |count: u64| count & 0xffff_ffff;
        let labels = ["10", "LOC", "RES"];
        let table = |now: bool| {
            let is_on = |cpu: usize| if now { online[cpu].1 } else { online[cpu].0 };
            let columns: Vec<usize> = (0..4).filter(|&cpu| is_on(cpu)).collect();
            let rows = (0..3).filter(|&row| now || !gone[row]).map(|row| Row {
                label: labels[row].to_owned(),
                counts: columns
                    .iter()
                    .map(|&cpu| {
                        let start = if gone[row] { 0 } else { start[row][cpu] };
                        shown(start + if now { rise[row][cpu] } else { 0 })
                    })
                    .collect(),
                ..Row::default()
            });
            Interrupts {
                cpus: columns.iter().map(|&cpu| CpuId(cpu as u32)).collect(),
                rows: rows.collect(),
                irregular: 0,
            }
        };
        let (before, after) = (table(false), table(true));
        let delta = after.delta(&before);
        let both: Vec<CpuId> =
            (0..4).filter(|&cpu| online[cpu].0 && online[cpu].1).map(|cpu| CpuId(cpu as u32)).collect();
        prop_assert_eq!(&delta.cpus, &both);
        for (row, label) in labels.iter().enumerate() {
            for &cpu in &both {
                prop_assert_eq!(delta.row(label).unwrap().counts[both.iter().position(|c| *c == cpu).unwrap()], rise[row][cpu.0 as usize]);
            }
        }
    }

    #[test]
    fn ticks_never_go_below_zero(now in any::<[u64; 3]>(), then in any::<[u64; 3]>()) {
        let ticks = |[user, idle, iowait]: [u64; 3]| Ticks { user, idle, iowait, ..Ticks::default() };
        let since = ticks(now).since(&ticks(then));
        prop_assert_eq!(since.user, now[0].saturating_sub(then[0]));
        prop_assert_eq!(since.idle, now[1].saturating_sub(then[1]));
        let _ = since.total();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_host_of_arbitrary_files_is_read_without_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        read_whole_host(&text);
    }
}

fn tables() -> impl Strategy<Value = Interrupts> {
    (1usize..6, 0usize..12).prop_flat_map(|(columns, rows)| {
        let device = (
            prop::sample::select(vec!["IO-APIC", "PCI-MSIX-0000:00:02.0", "GICv3"]),
            0u32..600_000,
            prop::sample::select(vec!["-edge", "-fasteoi", " Level"]),
            prop::sample::select(vec!["", "nvme0q1", "ahci[0000:00:1f.2], i801_smbus", "Power Button"]),
            prop::collection::vec(0u64..=u64::from(u32::MAX), columns),
        );
        let own = (
            prop::sample::select(vec!["LOC", "RES", "IPI0", "HYP"]),
            prop::sample::select(vec!["Local timer interrupts", "CPU stop (for crash dump) interrupts", "x"]),
            prop::collection::vec(0u64..=u64::from(u32::MAX), columns),
        );
        let cpus: Vec<CpuId> = (0..columns).map(|column| CpuId(column as u32 * 3)).collect();
        (prop::collection::vec(device, rows), prop::collection::vec(own, rows)).prop_map(move |(devices, owns)| {
            let device_rows = devices.into_iter().enumerate().map(|(at, (chip, input, trigger, name, counts))| Row {
                label: at.to_string(),
                name: name.to_owned(),
                chip: chip.to_owned(),
                input: format!("{input}{trigger}"),
                counts,
            });
            // The kernel prints each label once.
            let mut labels = HashSet::new();
            let own_rows = owns.into_iter().filter(|own| labels.insert(own.0)).map(|(label, name, counts)| Row {
                label: label.to_owned(),
                name: name.to_owned(),
                counts,
                ..Row::default()
            });
            let rows = device_rows.chain(own_rows).collect();
            Interrupts { cpus: cpus.clone(), rows, irregular: 0 }
        })
    })
}

/// Prints a table with the widths of kernel/irq/proc.c.
fn print(table: &Interrupts) -> String {
    let mut text = " ".repeat(11);
    for cpu in &table.cpus {
        write!(text, "CPU{:<8}", cpu.0).unwrap();
    }
    text.push('\n');
    for row in &table.rows {
        write!(text, "{:>3}:", row.label).unwrap();
        for count in &row.counts {
            write!(text, " {count:>10}").unwrap();
        }
        if row.is_device() {
            writeln!(text, " {:>8}  {:<12}  {}", row.chip, row.input, row.name).unwrap();
        } else {
            writeln!(text, "   {}", row.name).unwrap();
        }
    }
    text
}
