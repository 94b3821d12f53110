//! `offline-page`: has the kernel move what lies in the pages of failing rows, and use these pages no more (`soft_offline_page`).
//!
//! A page that is offline already is offline still after a second time. Until the next boot; a row that fails has more pages than those
//! whose addresses were seen.

use super::debug_mode::Reported;
use super::{Order, Outcome};
use std::fs::OpenOptions;
use std::io::Write;
use surefoot_foreign::said;
use surefoot_hostfs::Root;

/// Pages that one step takes from the kernel: memory that is not there any more is missed, too.
const PAGES_MAX: usize = 64;

/// Offlines the pages of these errors' addresses.
pub fn offline(root: &Root, reported: &Reported, page_bytes: u64, order: &Order) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let mut pages: Vec<u64> = reported.addresses.iter().map(|address| address / page_bytes * page_bytes).collect();
    pages.sort_unstable();
    pages.dedup();
    let unknown = reported.unknown.join("; ");
    if pages.is_empty() {
        return match unknown.is_empty() {
            true => Outcome::NotNeeded { detail: "no error has an address".to_owned() },
            false => failed(format!("no page is known, but not all errors are: {unknown}"), true),
        };
    }
    if pages.len() > PAGES_MAX {
        let why = format!("errors in {} pages; a step takes at most {PAGES_MAX}: replace the DIMM", pages.len());
        return failed(why, false);
    }
    let path = root.sys("devices/system/memory/soft_offline_page");
    let mut refused = Vec::new();
    for page in &pages {
        // The kernel moves what lies there before the write returns.
        let written = OpenOptions::new().write(true).open(&path).and_then(|mut file| write!(file, "{page:#x}"));
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let why = "unsupported: this kernel offlines no pages (CONFIG_MEMORY_FAILURE)";
                return failed(why.to_owned(), false);
            }
            Err(error) => refused.push(format!("{page:#x}: {}", said(&error))),
        }
    }
    let done = pages.len() - refused.len();
    match refused.first() {
        None if !unknown.is_empty() => failed(
            format!("{done} pages are offline until the next boot, but not all errors are known: {unknown}"),
            true,
        ),
        None => Outcome::Done { detail: format!("{done} pages are offline until the next boot"), memo: String::new() },
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
        Reported { addresses: addresses.to_vec(), ..Reported::default() }
    }

    #[test]
    fn each_page_is_told_to_the_kernel_once() {
        let host = HostTree::new().file("sys/devices/system/memory/soft_offline_page", "");
        let root = Root::at(host.path());
        match offline(&root, &reported(&[0x1234, 0x1fff, 0x5000]), 4096, &order()) {
            Outcome::Done { detail, .. } => assert!(detail.starts_with("2 pages"), "{detail}"),
            other => panic!("{other:?}"),
        }
        // A file of a made-up tree keeps the last of both where the kernel takes each.
        let told = std::fs::read_to_string(root.sys("devices/system/memory/soft_offline_page")).unwrap();
        assert_eq!(told, "0x5000");
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
