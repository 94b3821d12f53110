//! Which pages are taken out of use now. Pure.

use super::BadPage;
use std::collections::{BTreeMap, BTreeSet};

/// How many pages may be out of use. A page that is missing is memory that is missing, and a module with more bad pages than
/// this is to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Pages of one module that Surefoot has taken out.
    pub module_pages: u64,
    /// Pages of the host that the kernel has out of use, at the request of any program.
    pub host_pages: u64,
}

impl Default for Budget {
    /// 64 pages of a module, as a step of a remedy takes at most, and 256 of the host: 1 MiB.
    fn default() -> Self {
        Budget { module_pages: 64, host_pages: 256 }
    }
}

/// A page that the verdict names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its module.
    pub module: String,
    /// The page.
    pub page: BadPage,
    /// Why it is to be taken out.
    pub evidence: String,
}

/// What is known of the host when it is decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Pages that the kernel has out of use.
    pub host_pages: u64,
    /// Those that Surefoot took, by module.
    pub module_pages: BTreeMap<String, u64>,
    /// Candidates that the kernel has out of use, by address.
    pub offline: BTreeSet<u64>,
    /// Candidates that are beyond the memory of this host.
    pub beyond: BTreeSet<u64>,
    /// Now, `CLOCK_REALTIME`: of what is dated later nothing says in which boot it was.
    pub now_realtime_ns: u64,
    /// When this host booted, `CLOCK_REALTIME`. What was reported before may be an address of other memory now.
    pub booted_realtime_ns: u64,
    /// Whether a person says that physical addresses are those of earlier boots.
    pub are_addresses_kept: bool,
}

/// What is done with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is taken out.
    Take,
    /// The kernel has it out of use.
    IsOffline,
    /// As many pages of its module are out of use as the budget allows.
    OverModule,
    /// As many pages of the host are.
    OverHost,
    /// Nothing says that an error in it was reported since this host booted, so that its address may be that of other memory.
    EarlierBoot,
    /// This host has no memory at its address.
    NoMemory,
}

/// What is done with each page, those that lost bits and those with the most errors first.
pub fn plan(mut candidates: Vec<Candidate>, budget: Budget, known: &Known) -> Vec<(Candidate, Decision)> {
    candidates.sort_by_key(|one| {
        let page = &one.page;
        (std::cmp::Reverse((page.lost_count, page.error_count)), one.module.clone(), page.address)
    });
    let (mut host_pages, mut module_pages) = (known.host_pages, known.module_pages.clone());
    let mut seen = BTreeSet::new();
    let decided = candidates.into_iter().filter(|one| seen.insert(one.page.address)).map(|one| {
        let of_module = module_pages.entry(one.module.clone()).or_default();
        let is_of_this_boot = (known.booted_realtime_ns..=known.now_realtime_ns).contains(&one.page.last_realtime_ns);
        let decision = if known.beyond.contains(&one.page.address) {
            Decision::NoMemory
        } else if known.offline.contains(&one.page.address) {
            Decision::IsOffline
        } else if !is_of_this_boot && !known.are_addresses_kept {
            Decision::EarlierBoot
        } else if *of_module >= budget.module_pages {
            Decision::OverModule
        } else if host_pages >= budget.host_pages {
            Decision::OverHost
        } else {
            *of_module += 1;
            host_pages += 1;
            Decision::Take
        };
        (one, decision)
    });
    decided.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(module: &str, frame: u64, error_count: u64, lost_count: u64) -> Candidate {
        let address = frame * 4096;
        let page =
            BadPage { address, error_count, lost_count, last_realtime_ns: 100, worst_count: 0, is_over_rate: false };
        Candidate { module: module.into(), page, evidence: String::new() }
    }

    #[test]
    fn the_worst_pages_go_first_and_the_budgets_hold() {
        let known = Known {
            host_pages: 3,
            module_pages: [("A".to_owned(), 1)].into(),
            offline: [4 * 4096].into(),
            beyond: [7 * 4096].into(),
            now_realtime_ns: 100,
            booted_realtime_ns: 100,
            are_addresses_kept: false,
        };
        let candidates = vec![
            candidate("A", 1, 5, 0),
            candidate("A", 2, 9, 0),
            candidate("A", 3, 1, 1),
            candidate("A", 4, 7, 0),
            candidate("B", 5, 3, 0),
            candidate("B", 6, 2, 0),
            candidate("A", 7, 1, 0),
            // The same page under another name: it is taken once.
            candidate("C", 5, 1, 0),
        ];
        let decided = plan(candidates, Budget { module_pages: 3, host_pages: 6 }, &known);
        let frames: Vec<(u64, Decision)> =
            decided.iter().map(|(one, decision)| (one.page.address / 4096, *decision)).collect();
        assert_eq!(
            frames,
            [
                (3, Decision::Take),
                (2, Decision::Take),
                (4, Decision::IsOffline),
                (1, Decision::OverModule),
                (5, Decision::Take),
                (6, Decision::OverHost),
                (7, Decision::NoMemory),
            ]
        );
    }

    #[test]
    fn an_address_of_an_earlier_boot_is_not_touched_unless_a_person_says_that_it_holds() {
        let mut known = Known { now_realtime_ns: 200, booted_realtime_ns: 101, ..Known::default() };
        let decide = |known: &Known| plan(vec![candidate("A", 1, 5, 0)], Budget::default(), known)[0].1;
        assert_eq!(decide(&known), Decision::EarlierBoot);
        // What is dated after now is of no known boot.
        (known.now_realtime_ns, known.booted_realtime_ns) = (99, 50);
        assert_eq!(decide(&known), Decision::EarlierBoot);
        known.are_addresses_kept = true;
        assert_eq!(decide(&known), Decision::Take);
    }
}
