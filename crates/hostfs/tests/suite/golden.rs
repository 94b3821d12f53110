//! Everything that is read from a recorded host, compared as a whole.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::privilege::Privilege;
use surefoot_hostfs::smi::{SmiCounter, SmiFacts, choose};
use surefoot_hostfs::stat::Stat;
use surefoot_hostfs::symbols::Symbols;
use surefoot_hostfs::tracefs::{Tracefs, TracefsMount};
use surefoot_hostfs::{Root, clock, cpus, usage};
use surefoot_model::CpuId;
use surefoot_testkit::HostTree;

const EVENTS: [(&str, &str); 7] = [
    ("irq_vectors", "local_timer_entry"),
    ("sched", "sched_switch"),
    ("irq", "irq_handler_entry"),
    ("csd", "csd_queue_cpu"),
    ("ipi", "ipi_send_cpumask"),
    ("nmi", "nmi_handler"),
    ("mce", "mce_record"),
];

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The archive of a machine.
pub fn archive(machine: &str) -> PathBuf {
    tests_folder().join("fixtures").join(format!("{machine}.tree"))
}

pub fn machines() -> Vec<String> {
    let mut machines: Vec<String> = std::fs::read_dir(tests_folder().join("fixtures"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".tree").map(str::to_owned))
        .collect();
    machines.sort();
    machines
}

#[test]
fn every_recorded_host_reads_as_its_golden_file_says() {
    let machines = machines();
    assert_eq!(machines.len(), 6, "{machines:?}");
    for machine in machines {
        let tree = HostTree::unpacked(archive(&machine));
        // Messages name the real path, which differs from run to run.
        let found = describe(&Root::at(tree.path())).replace(&tree.path().display().to_string(), "");
        let golden = tests_folder().join("golden").join(format!("{machine}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
            assert_eq!(found, expected, "{machine}, line {}", number + 1);
        }
        assert_eq!(found.lines().count(), expected.lines().count(), "{machine}: length");
    }
}

fn describe(root: &Root) -> String {
    let mut out = String::new();
    let identity = Identity::read(root);
    writeln!(out, "{identity:#?}").unwrap();
    writeln!(out, "isolcpus: {:?}", identity.boot_option("isolcpus")).unwrap();
    writeln!(out, "{:#?}", Privilege::read(root)).unwrap();
    type ReadCores = fn(&Root) -> Result<Vec<CpuId>, surefoot_hostfs::Error>;
    let sets: [(&str, ReadCores); 4] = [
        ("online", cpus::online),
        ("possible", cpus::possible),
        ("isolated", cpus::isolated),
        ("nohz_full", cpus::nohz_full),
    ];
    for (name, read) in sets {
        writeln!(out, "{name}: '{}'", cpus::format_list(&read(root).unwrap())).unwrap();
    }
    let resident_pages = usage::resident_bytes(root).unwrap() / usage::page_bytes();
    writeln!(out, "clock: {} trusted {}", clock::clocksource(root).unwrap(), clock::trusted(root)).unwrap();
    writeln!(out, "resident: {resident_pages} pages").unwrap();
    describe_smi(&mut out, root, &identity);
    describe_tracing(&mut out, root);
    let stat = Stat::read(root).unwrap();
    for (cpu, ticks) in &stat.cpus {
        writeln!(out, "stat {cpu}: {ticks:?} total {}", ticks.total()).unwrap();
    }
    describe_table(&mut out, "interrupts", &Interrupts::read(root).unwrap());
    describe_table(&mut out, "softirqs", &Interrupts::read_softirqs(root).unwrap());
    out
}

fn describe_smi(out: &mut String, root: &Root, identity: &Identity) {
    let facts = SmiFacts::read(root, identity, CpuId(0));
    writeln!(out, "{facts:?}").unwrap();
    match choose(&facts) {
        Ok(source) => writeln!(out, "smi source: {}", source.label()).unwrap(),
        Err(unsupported) => writeln!(out, "smi: {} ({})", unsupported.why, unsupported.remedy).unwrap(),
    }
    match SmiCounter::open(root, identity, CpuId(0)) {
        Ok(counter) => writeln!(out, "smi counter: {:?} before", counter.before_open()).unwrap(),
        Err(unsupported) => writeln!(out, "smi counter: {unsupported}").unwrap(),
    }
}

fn describe_tracing(out: &mut String, root: &Root) {
    let tracefs = Tracefs::open(root);
    match &tracefs {
        Ok(tracefs) => match tracefs.place() {
            TracefsMount::Mounted(path) => writeln!(out, "tracefs: {}", path.display()).unwrap(),
            other => panic!("a recorded tree has no mount of our own: {other}"),
        },
        Err(unsupported) => writeln!(out, "tracefs: {} ({})", unsupported.why, unsupported.remedy).unwrap(),
    }
    for (group, name) in EVENTS {
        let Some(tracefs) = tracefs.as_ref().ok().filter(|tracefs| tracefs.event_exists(group, name)) else {
            writeln!(out, "event {group}:{name}: absent").unwrap();
            continue;
        };
        let format = tracefs.event_format(group, name).unwrap();
        writeln!(out, "event {group}:{} id {}", format.name, format.id).unwrap();
        for field in format.fields {
            let signed = if field.signed { "signed" } else { "unsigned" };
            writeln!(out, "  {} '{}' at {} size {} {signed}", field.name, field.kind, field.offset, field.size)
                .unwrap();
        }
    }
    match Symbols::load(root) {
        Ok(symbols) => {
            writeln!(out, "symbols: {} dropped {}", symbols.len(), symbols.dropped()).unwrap();
            for address in [0xffff_ffff_8134_24a7, 0xffff_ffff_8144_1290, 0xffff_ffff_0000_0000] {
                writeln!(out, "symbol {address:#x}: {:?}", symbols.locate(address)).unwrap();
            }
        }
        Err(unsupported) => writeln!(out, "symbols: {} ({})", unsupported.why, unsupported.remedy).unwrap(),
    }
}

fn describe_table(out: &mut String, name: &str, table: &Interrupts) {
    writeln!(out, "{name}: cores {} irregular {}", cpus::format_list(&table.cpus), table.irregular).unwrap();
    for row in &table.rows {
        let device = if row.is_device() { "device" } else { "own" };
        writeln!(
            out,
            "  {device} {} chip '{}' input '{}' name '{}' {:?}",
            row.label, row.chip, row.input, row.name, row.counts
        )
        .unwrap();
    }
}
