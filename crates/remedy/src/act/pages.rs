//! `offline-page`: has the kernel stop using the pages in which errors were reported.
//!
//! Pages with corrected errors alone go by `soft_offline_page`, which moves their contents and kills nothing. The contents of a page
//! that lost bits cannot be moved: it goes by `hard_offline_page`, which drops them and kills the processes that use the page.
//! A page stays offline until the next boot; offlining it twice does no harm. A failing row has more pages than those that were reported.

use super::debug_mode::Reported;
use super::{Order, Outcome};
use std::collections::BTreeMap;
use surefoot_hostfs::Root;
use surefoot_model::Observed;
use surefoot_sys::offlining::{self, Offlining, Refused};

/// Pages that one step takes from the kernel: memory that is not there any more is missed, too.
const PAGES_MAX: usize = 64;

/// Offlines the pages of these errors' addresses.
pub fn offline(root: &Root, reported: &Reported, page_bytes: u64, order: &Order) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let mut pages: BTreeMap<u64, bool> = BTreeMap::new();
    for (address, is_lost) in &reported.addresses {
        *pages.entry(address / page_bytes * page_bytes).or_default() |= is_lost;
    }
    let unknown = reported.unknown.join("; ");
    if pages.is_empty() {
        return match (unknown.is_empty(), reported.without_address) {
            (true, 0) => Outcome::NotNeeded { detail: "no errors were reported".to_owned() },
            (true, count) => failed(format!("no page is known: none of {count} errors has the address of one"), false),
            (false, _) => failed(format!("no page is known, but not all errors are: {unknown}"), true),
        };
    }
    if pages.len() > PAGES_MAX {
        let why = format!("errors in {} pages; a step takes at most {PAGES_MAX}: replace the DIMM", pages.len());
        return failed(why, false);
    }
    let mut refused = Vec::new();
    for (page, is_lost) in &pages {
        let how = if *is_lost { Offlining::Hard } else { Offlining::Soft };
        match offlining::offline(root, *page, how) {
            Ok(()) => {}
            Err(missing @ Refused::Unsupported(_)) => return failed(missing.to_string(), false),
            Err(error) => refused.push(format!("{page:#x} ({}): {error}", how.file())),
        }
    }
    let beside = match reported.without_address {
        0 => String::new(),
        count => format!("the pages of {count} errors without an address are not known"),
    };
    let done = pages.len() - refused.len();
    match refused.first() {
        None if !unknown.is_empty() => failed(
            format!("{done} pages are offline until the next boot, but not all errors are known: {unknown}"),
            true,
        ),
        None => {
            let asked_count = pages.len() as u64;
            let observed = match offlining::poisoned_count(root, pages.keys().map(|page| page / page_bytes)) {
                Ok(offline_count) if offline_count < asked_count => {
                    let why = format!(
                        "the kernel took {asked_count} pages and marks {offline_count} of them as poisoned (/proc/kpageflags)"
                    );
                    return failed(why, true);
                }
                Ok(offline_count) => Observed::PagesOffline { asked_count, offline_count },
                Err(why) => Observed::Unobserved { why: format!("the kernel took {asked_count} pages; {why}") },
            };
            Outcome::Done { observed, remark: beside, memo: String::new() }
        }
        // What is pinned today may be free later.
        Some(first) => failed(format!("{done} of {} pages are offline; {first}", pages.len()), true),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Step;
    use surefoot_testkit::HostTree;

    fn order() -> Order {
        Order { step: Step::OfflinePage, host: "n1".into(), ..Order::default() }
    }

    fn reported(addresses: &[u64]) -> Reported {
        Reported { addresses: addresses.iter().map(|address| (*address, false)).collect(), ..Reported::default() }
    }

    #[test]
    fn each_page_is_told_to_the_kernel_once() {
        let host = HostTree::new().file("sys/devices/system/memory/soft_offline_page", "");
        let root = Root::at(host.path());
        let offline = || super::offline(&root, &reported(&[0x1234, 0x1fff, 0x5000]), 4096, &order());
        // Nobody says what became of the pages.
        match offline() {
            Outcome::Done { observed, .. } => assert!(!observed.shows_effect(), "{observed}"),
            other => panic!("{other:?}"),
        }
        let flags = |poisoned: &[usize]| {
            let mut flags = [0u64; 8];
            poisoned.iter().for_each(|frame| flags[*frame] = 1 << 19 | 1);
            let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
            std::fs::create_dir_all(host.path().join("proc")).unwrap();
            std::fs::write(host.path().join("proc/kpageflags"), bytes).unwrap();
        };
        flags(&[1]);
        match offline() {
            Outcome::Failed { detail, is_passing: true, .. } => assert!(detail.contains("marks 1 of them"), "{detail}"),
            other => panic!("{other:?}"),
        }
        flags(&[1, 5, 6]);
        assert_eq!(offline(), Outcome::done(Observed::PagesOffline { asked_count: 2, offline_count: 2 }, ""));
        // A file of a made-up tree keeps the last of both where the kernel takes each.
        let told = std::fs::read_to_string(root.sys("devices/system/memory/soft_offline_page")).unwrap();
        assert_eq!(told, "0x5000");
    }

    /// The contents of a page that lost bits cannot be moved elsewhere; the kernel would read them to do it.
    #[test]
    fn a_page_that_lost_bits_is_offlined_hard_and_no_other() {
        let file = |how: &str| format!("sys/devices/system/memory/{how}_offline_page");
        let host = HostTree::new().file(file("soft"), "").file(file("hard"), "");
        let root = Root::at(host.path());
        // Of two errors in one page one lost bits.
        let addresses = [(0x1234, false), (0x5000, true), (0x5040, false)].into();
        let outcome =
            offline(&root, &Reported { addresses, without_address: 3, ..Reported::default() }, 4096, &order());
        assert!(matches!(&outcome, Outcome::Done { remark, .. } if remark.contains("3 errors without")), "{outcome:?}");
        let told = |how: &str| std::fs::read_to_string(host.path().join(file(how))).unwrap();
        assert_eq!((told("soft"), told("hard")), ("0x1000".to_owned(), "0x5000".to_owned()));
        let none = Reported { without_address: 3, ..Reported::default() };
        assert!(matches!(offline(&root, &none, 4096, &order()), Outcome::Failed { is_passing: false, .. }));
    }

    #[test]
    fn known_pages_go_offline_and_unknown_errors_make_the_step_fail() {
        let host = HostTree::new().file("sys/devices/system/memory/soft_offline_page", "");
        let root = Root::at(host.path());
        for addresses in [&[][..], &[0x5000]] {
            let unknown = vec!["the host was not watched in this time".to_owned()];
            match offline(&root, &Reported { unknown, ..reported(addresses) }, 4096, &order()) {
                Outcome::Failed { detail, is_passing: true, .. } => assert!(detail.contains("not watched"), "{detail}"),
                other => panic!("{other:?}"),
            }
        }
        let told = std::fs::read_to_string(root.sys("devices/system/memory/soft_offline_page")).unwrap();
        assert_eq!(told, "0x5000");
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let without = HostTree::new().file("sys/devices/system/cpu/online", "0");
        match offline(&Root::at(without.path()), &reported(&[1]), 4096, &order()) {
            Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.starts_with("unsupported"), "{detail}"),
            other => panic!("{other:?}"),
        }
        let many: Vec<u64> = (0..65).map(|page| page * 4096).collect();
        match offline(&Root::at(without.path()), &reported(&many), 4096, &order()) {
            Outcome::Failed { detail, is_passing: false, .. } => {
                assert!(detail.contains("replace the DIMM"), "{detail}")
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(
            offline(&Root::at(without.path()), &reported(&[]), 4096, &order()),
            Outcome::NotNeeded { .. }
        ));
    }
}
