//! Each stop of the process, and what the next one makes of it.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::pages::BadPage;
use std::cell::Cell;
use std::fs;
use surefoot_testkit::HostTree;

const PAGE_BYTES: u64 = 4096;

/// A host of eight frames, of which these are out of use.
fn host(poisoned: &[u64]) -> HostTree {
    let host = HostTree::new()
        .file("sys/devices/system/memory/soft_offline_page", "")
        .file("sys/kernel/debug/hwpoison/unpoison-pfn", "");
    mark(&host, poisoned);
    host
}

fn mark(host: &HostTree, poisoned: &[u64]) {
    let flags: Vec<u8> =
        (0..8u64).flat_map(|frame| (u64::from(poisoned.contains(&frame)) << 19 | 1).to_ne_bytes()).collect();
    fs::create_dir_all(host.path().join("proc")).unwrap();
    fs::write(host.path().join("proc/kpageflags"), flags).unwrap();
}

fn candidate(frame: u64) -> Candidate {
    let page = BadPage {
        address: frame * PAGE_BYTES,
        error_count: 3,
        lost_count: 0,
        last_realtime_ns: 1,
        worst_count: 3,
        is_over_rate: false,
    };
    Candidate { module: "DIMM_A1".into(), page, evidence: "a row fault".into() }
}

fn clock() -> impl Fn() -> u64 {
    let now = Cell::new(1_795_500_000_000_000_000);
    move || {
        now.set(now.get() + 1);
        now.get()
    }
}

fn journal(folder: &tempfile::TempDir) -> Record {
    Record::File(folder.path().join("deeds.jsonl"))
}

#[test]
fn what_is_written_down_is_what_the_kernel_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (record, now) = (journal(&folder), clock());
    // The made-up kernel takes the request and does nothing, or has done it already.
    for (poisoned, expected) in [(&[][..], "failed"), (&[3], "done")] {
        let host = host(poisoned);
        let became = take(&Root::at(host.path()), PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
        assert_eq!(became == Became::Offline, expected == "done", "{became:?}");
        let told = fs::read_to_string(host.path().join("sys/devices/system/memory/soft_offline_page")).unwrap();
        assert_eq!(told, "0x3000");
        let last = record.look().unwrap().deeds.pop().unwrap();
        assert_eq!(last.outcome.as_str(), expected, "{last:?}");
    }
    // If the flags cannot be read, no effect is claimed.
    let host = HostTree::new().file("sys/devices/system/memory/soft_offline_page", "");
    let became = take(&Root::at(host.path()), PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
    assert!(matches!(&became, Became::Unobserved(why) if why.contains("kpageflags")), "{became:?}");
    let last = record.look().unwrap().deeds.pop().unwrap();
    assert!(matches!(&last.outcome, DeedOutcome::Done { observed } if !observed.shows_effect()), "{last:?}");
    // A kernel that cannot is asked once.
    let host = HostTree::new().file("sys/devices/system/cpu/online", "0");
    let became = take(&Root::at(host.path()), PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
    assert!(matches!(&became, Became::Unsupported(why) if why.why.contains("soft_offline_page")), "{became:?}");
}

/// The journal of two pages is cut at each byte, the kernel has or has not done what was begun last, and the next process says of each
/// page what is so.
#[test]
fn after_a_stop_at_each_byte_of_the_journal_the_next_process_knows_what_is_so() {
    let whole = tempfile::tempdir().unwrap();
    let now = clock();
    let full = host(&[2, 3]);
    for frame in [2, 3] {
        take(&Root::at(full.path()), PAGE_BYTES, &journal(&whole), &candidate(frame), 0, &now).unwrap();
    }
    let bytes = fs::read(whole.path().join("deeds.jsonl")).unwrap();
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    assert_eq!(ends.len(), 4);
    for cut in 0..=bytes.len() {
        let line_count = ends.iter().filter(|end| **end <= cut).count();
        // A line whose line feed alone is missing is read as well.
        let has_line = |number: usize| cut + 1 >= ends[number];
        for has_done_last in [false, true] {
            let mut poisoned = Vec::new();
            for (number, frame) in [(0, 2), (2, 3)] {
                let is_begun = line_count > number;
                let is_ended = has_line(number + 1);
                if is_ended || (is_begun && has_done_last) {
                    poisoned.push(frame);
                }
            }
            let (folder, host) = (tempfile::tempdir().unwrap(), host(&poisoned));
            let record = journal(&folder);
            fs::write(record.path(), &bytes[..cut]).unwrap();
            let root = Root::at(host.path());
            let mut taken = Taken::read(&record).unwrap();
            taken.settle(&root, PAGE_BYTES, &record, &now).unwrap();
            let after = Taken::read(&record).unwrap();
            assert_eq!(after.unfinished(), [], "cut at {cut}");
            // What the journal says of a page is what the kernel shows.
            for (&address, deed) in &after.pages {
                let is_offline = poisoned.contains(&(address / PAGE_BYTES));
                let is_told = matches!(deed.outcome, DeedOutcome::Done { .. });
                assert_eq!(is_told, is_offline, "cut at {cut}, {has_done_last}: {deed:?}");
            }
            let known = after.pages().map(|(address, _)| address / PAGE_BYTES).collect::<Vec<_>>();
            assert!(poisoned.iter().all(|frame| known.contains(frame)), "cut at {cut}: {poisoned:?}, {known:?}");
        }
    }
}

#[test]
fn a_page_that_is_put_back_is_no_longer_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (record, now) = (journal(&folder), clock());
    let host = host(&[3]);
    let root = Root::at(host.path());
    take(&root, PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
    let page = (3 * PAGE_BYTES, "DIMM_A1");
    assert_eq!(Taken::read(&record).unwrap().pages().collect::<Vec<_>>(), [page]);
    // The made-up kernel leaves it marked.
    let became = restore(&root, PAGE_BYTES, &record, page, 0, &now).unwrap();
    assert!(matches!(&became, Became::Failed(why) if why.contains("still marks")), "{became:?}");
    assert_eq!(Taken::read(&record).unwrap().pages().collect::<Vec<_>>(), [page]);
    mark(&host, &[]);
    assert_eq!(restore(&root, PAGE_BYTES, &record, page, 0, &now).unwrap(), Became::InUse);
    assert_eq!(fs::read_to_string(host.path().join("sys/kernel/debug/hwpoison/unpoison-pfn")).unwrap(), "0x3");
    assert_eq!(Taken::read(&record).unwrap().pages().count(), 0);
    let last = record.look().unwrap().deeds.pop().unwrap();
    assert_eq!((last.action, last.outcome.as_str()), (DeedAction::RestorePage, "done"));
}
