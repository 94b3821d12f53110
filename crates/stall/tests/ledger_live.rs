//! The collector on the running kernel: the parts add up, and the counts agree with the kernel's own table.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::{Event, Report, Window};
use surefoot_probes::Flavour;
use surefoot_stall::{Collector, Config, Error, SourceChoice};
use surefoot_testkit::not_run::not_run;

fn windows(source: SourceChoice, count: usize) -> Option<(Vec<Event>, Vec<Window>)> {
    let config = Config { source, window: Duration::from_millis(500), ..Config::default() };
    let mut collector = match Collector::start(&Root::host(), config) {
        Ok(collector) => collector,
        Err(Error::Probes(surefoot_probes::Error::Unsupported { why, .. })) => {
            not_run(&format!("the ledger on {source:?}"), &why);
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut events = collector.opening();
    for _ in 0..count {
        events.extend(collector.next_window(&AtomicBool::new(false)).unwrap());
    }
    let windows: Vec<Window> = events
        .iter()
        .filter_map(|event| match event {
            Event::Window(window) => Some(window.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(windows.len(), count);
    Some((events, windows))
}

fn parts_add_up(windows: &[Window]) {
    for window in windows {
        assert!(!window.cores.is_empty());
        for core in &window.cores {
            assert!(core.sums_up(), "{core:?}");
            assert!(core.wall_ns > 0);
        }
    }
    for pair in windows.windows(2) {
        assert_eq!(pair[0].end_ns, pair[1].start_ns, "windows follow each other without a hole");
    }
}

#[test]
fn typed_tracepoints_account_for_all_time_and_agree_with_the_kernel_s_counts() {
    let Some((events, windows)) = windows(SourceChoice::Ebpf(Flavour::Btf), 6) else { return };
    parts_add_up(&windows);
    let report = Report::of(&events);
    for row in &report.completeness {
        // The table is read right after the cores, so a busy line may run ahead by a few.
        let slack = 12 + row.kernel_count / 50;
        assert!(row.kernel_count.abs_diff(row.probe_count) <= slack, "{row:?}");
    }
    assert!(report.completeness.iter().any(|row| row.row == "LOC" && row.probe_count > 0), "{:?}", report.completeness);
    let unexplained_ns: u64 = report.cores().iter().map(|core| core.unexplained_ns).sum();
    let wall_ns: u64 = report.cores().iter().map(|core| core.wall_ns).sum();
    assert!(unexplained_ns < wall_ns / 2, "{unexplained_ns} of {wall_ns} ns unexplained");
    assert!(report.cost.probes_ns() > 0);
}

#[test]
fn plain_tracepoints_account_for_all_time() {
    let Some((_, windows)) = windows(SourceChoice::Ebpf(Flavour::Plain), 3) else { return };
    parts_add_up(&windows);
}

#[test]
fn the_kernel_s_counters_alone_account_for_all_time_and_name_what_they_cannot_time() {
    let (events, windows) = windows(SourceChoice::Counters, 3).unwrap();
    parts_add_up(&windows);
    let Event::Host(host) = &events[0] else { panic!("{:?}", events[0]) };
    assert!(!host.missing.is_empty());
    assert!(windows.iter().any(|window| window.untimed.iter().any(|row| row.row == "LOC")));
    assert!(windows.iter().all(|window| window.completeness.is_empty()));
}
