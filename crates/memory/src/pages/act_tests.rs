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
            taken.settle(&root, PAGE_BYTES, &record, 0, &now).unwrap();
            let after = Taken::read(&record).unwrap();
            assert_eq!(after.unfinished(), [], "cut at {cut}");
            // What the journal says of a page is what the kernel shows.
            for deed in record.look().unwrap().deeds {
                let is_offline = address(&deed).is_some_and(|address| poisoned.contains(&(address / PAGE_BYTES)));
                match deed.outcome {
                    DeedOutcome::Begun => {}
                    DeedOutcome::Done { .. } => assert!(is_offline, "cut at {cut}, {has_done_last}: {deed:?}"),
                    _ => assert!(!is_offline, "cut at {cut}, {has_done_last}: {deed:?}"),
                }
            }
            let known = after.pages(0).map(|(address, _)| address / PAGE_BYTES).collect::<Vec<_>>();
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
    assert_eq!(Taken::read(&record).unwrap().pages(0).collect::<Vec<_>>(), [page]);
    // The made-up kernel leaves it marked.
    let became = restore(&root, PAGE_BYTES, &record, page, 0, &now).unwrap();
    assert!(matches!(&became, Became::Failed(why) if why.contains("still marks")), "{became:?}");
    assert_eq!(Taken::read(&record).unwrap().pages(0).collect::<Vec<_>>(), [page]);
    mark(&host, &[]);
    assert_eq!(restore(&root, PAGE_BYTES, &record, page, 0, &now).unwrap(), Became::InUse);
    assert_eq!(fs::read_to_string(host.path().join("sys/kernel/debug/hwpoison/unpoison-pfn")).unwrap(), "0x3");
    assert_eq!(Taken::read(&record).unwrap().pages(0).count(), 0);
    let last = record.look().unwrap().deeds.pop().unwrap();
    assert_eq!((last.action, last.outcome.as_str()), (DeedAction::RestorePage, "done"));
}

/// A page of this boot that others took out is not put back for a deed that failed or that an earlier boot ended.
#[test]
fn a_deed_that_failed_or_is_of_an_earlier_boot_explains_no_page_that_is_out_of_use() {
    let (folder, host) = (tempfile::tempdir().unwrap(), host(&[]));
    let (record, now, root) = (journal(&folder), clock(), Root::at(host.path()));
    // The made-up kernel marks nothing, so it failed; later something else takes the page out.
    take(&root, PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
    mark(&host, &[3]);
    assert_eq!(Taken::read(&record).unwrap().pages(0).count(), 0);
    // One that was done, and one that had no end when the host booted.
    take(&root, PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
    let target = DeedTarget::Page { address: 5 * PAGE_BYTES, is_hard: false };
    record.append(&begin("DIMM_A1", DeedAction::OfflinePage, target, DeedReason::Asked, 0, now())).unwrap();
    assert_eq!(Taken::read(&record).unwrap().pages(0).count(), 2);
    let booted_realtime_ns = now();
    mark(&host, &[3, 5]);
    let mut taken = Taken::read(&record).unwrap();
    let settled = taken.settle(&root, PAGE_BYTES, &record, booted_realtime_ns, &now).unwrap();
    assert!(matches!(&settled[..], [Deed { outcome: DeedOutcome::InDoubt { .. }, .. }]), "{settled:?}");
    assert_eq!(taken.pages(booted_realtime_ns).count(), 0);
    assert_eq!(Taken::read(&record).unwrap().pages(booted_realtime_ns).count(), 0);
}

#[test]
fn a_page_whose_return_was_not_observed_is_still_out_of_use_by_a_deed_of_ours() {
    let (folder, host) = (tempfile::tempdir().unwrap(), host(&[3]));
    let (record, now, root) = (journal(&folder), clock(), Root::at(host.path()));
    take(&root, PAGE_BYTES, &record, &candidate(3), 0, &now).unwrap();
    fs::remove_file(host.path().join("proc/kpageflags")).unwrap();
    let page = (3 * PAGE_BYTES, "DIMM_A1");
    let became = restore(&root, PAGE_BYTES, &record, page, 0, &now).unwrap();
    assert!(matches!(became, Became::Unobserved(_)), "{became:?}");
    assert_eq!(Taken::read(&record).unwrap().pages(0).collect::<Vec<_>>(), [page]);
}

#[test]
fn an_address_beyond_the_memory_hides_no_other_page() {
    let host = host(&[3]);
    let pages = [3, 8, u64::MAX / PAGE_BYTES].map(|frame| frame * PAGE_BYTES);
    let shown = offline_of(&Root::at(host.path()), pages.into_iter(), PAGE_BYTES).unwrap();
    assert_eq!(shown, Shown { offline: [pages[0]].into(), beyond: pages[1..].iter().copied().collect() });
}
