//! The pages of a failing row or cell, as far as their addresses were seen, and taking them out of use.
//!
//! [`SeenPages`] knows the pages, [`plan`] decides which of them go (pure), [`act`] has the kernel take them and records it.
//!
//! A row of a module is spread over the physical addresses by the interleaving of channels, ranks and banks, which only the
//! memory controller knows. So from the errors of a row one learns the pages that they were in and no others, and taking those
//! out leaves the rest of the row in use. Rasdaemon's row policy takes them out without saying so.

pub mod act;
mod plan;

pub use plan::{Budget, Candidate, Decision, Known, plan};

use crate::counted;
use crate::fault::NEAR_ROWS;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{Dimm, ErrorReport, ErrorSeverity, FaultMode, MemoryAction};
use surefoot_sys::offlining::Offlining;

/// A page of the host, bytes: what the kernel takes out at once on x86, and on Arm with its usual setting.
pub const PAGE_BYTES: u64 = 4096;
/// How many rows are remembered over all modules, each with its pages.
const ROWS_MAX: usize = 65_536;
/// How many pages of a row are remembered. A row of a module has 8 KiB, so it lies in two at the least and in 128 at the most
/// (each burst of 64 bytes in another).
const PAGES_PER_ROW_MAX: usize = 256;
const SECOND_NS: u64 = 1_000_000_000;

/// How many moments of errors are remembered over all pages. Beyond it a page has more errors than are counted for its rate.
const MOMENTS_MAX: usize = 1 << 18;

/// How many errors within how long take a page out of use, regardless of the fault of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRate {
    /// The number.
    pub count: u64,
    /// The time, nanoseconds.
    pub within_ns: u64,
}

impl Default for PageRate {
    /// 50 within 24 hours, as rasdaemon's page policy (`PAGE_CE_THRESHOLD`, `PAGE_CE_REFRESH_CYCLE`).
    fn default() -> Self {
        PageRate { count: 50, within_ns: 24 * 3600 * 1_000_000_000 }
    }
}

/// A row of a module, or where errors without a row were.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    dimm: String,
    place: Option<RowPlace>,
}

/// Rank, bank and row; the rank is `None` if it was not reported.
pub type RowPlace = (Option<u32>, u32, u32);

/// Pages by row.
#[derive(Debug, Default)]
pub struct SeenPages {
    rows: BTreeMap<RowKey, BTreeMap<u64, Page>>,
    /// Errors whose address is not told, or is coarser than a page.
    unaddressed: BTreeMap<String, u64>,
    rate: PageRate,
    moment_count: usize,
    /// Errors in rows and pages beyond the limits.
    pub left_out_count: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Page {
    errors: u64,
    lost: u64,
    last_realtime_ns: u64,
    /// Errors by the second in which they were reported; undated ones are in none.
    moments: BTreeMap<u64, u64>,
}

impl Page {
    /// The most errors within this time.
    fn worst(&self, within_ns: u64) -> u64 {
        let within_s = within_ns / SECOND_NS;
        let of = |&from: &u64| self.moments.range(from..from.saturating_add(within_s)).map(|(_, count)| count).sum();
        self.moments.keys().map(of).max().unwrap_or(0)
    }
}

/// A page to take out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadPage {
    /// Its physical address.
    pub address: u64,
    /// Errors that were reported in it.
    pub error_count: u64,
    /// Those whose bits are lost.
    pub lost_count: u64,
    /// When the last one was reported, `CLOCK_REALTIME`; 0 if no report is dated.
    pub last_realtime_ns: u64,
    /// The most errors within the time of the [`PageRate`].
    pub worst_count: u64,
    /// Whether that is the rate's number or more.
    pub is_over_rate: bool,
}

/// What can be taken out of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offline {
    /// The rows, where pages help against their fault.
    pub rows: Vec<RowPlace>,
    /// The pages that were seen.
    pub pages: Vec<BadPage>,
    /// Whether it is advised to take them out; pages that lost bits are to be taken out whatever the advice.
    pub is_advised: bool,
    /// Errors of the module whose page is not known.
    pub unaddressed_count: u64,
    /// Why nothing is listed, or what is not known of the list.
    pub unknown: Vec<String>,
}

impl SeenPages {
    /// None yet, with this rate.
    pub fn with_rate(rate: PageRate) -> SeenPages {
        SeenPages { rate, ..SeenPages::default() }
    }

    /// Adds a report of this module, as [`crate::import::Modules::add`] names it: labels repeat from socket to socket, and a page goes only
    /// for the module whose verdict names it.
    pub fn add(&mut self, report: &ErrorReport, module: &str) {
        let count = u64::from(report.count);
        let location = &report.location;
        let address =
            location.address.filter(|_| location.grain_bits.is_none_or(|bits| u32::from(bits) <= PAGE_BYTES.ilog2()));
        let Some(address) = address else {
            let of_module = self.unaddressed.entry(module.to_owned()).or_default();
            *of_module = of_module.saturating_add(count);
            return;
        };
        let bank = location
            .bank
            .map(|bank| location.bank_group.map_or(bank, |group| group.saturating_mul(4).saturating_add(bank)));
        let place = bank.zip(location.row).map(|(bank, row)| (location.rank, bank, row));
        let key = RowKey { dimm: module.to_owned(), place };
        let is_full = self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key);
        let page_address = address & !(PAGE_BYTES - 1);
        if is_full {
            self.left_out_count = self.left_out_count.saturating_add(count);
            return;
        }
        let pages = self.rows.entry(key).or_default();
        if pages.len() >= PAGES_PER_ROW_MAX && !pages.contains_key(&page_address) {
            self.left_out_count = self.left_out_count.saturating_add(count);
            return;
        }
        let page = pages.entry(page_address).or_default();
        page.errors = page.errors.saturating_add(count);
        page.last_realtime_ns = page.last_realtime_ns.max(report.at_realtime_ns);
        let second = report.at_realtime_ns / SECOND_NS;
        if second > 0 && (self.moment_count < MOMENTS_MAX || page.moments.contains_key(&second)) {
            let moment = page.moments.entry(second).or_insert_with(|| {
                self.moment_count += 1;
                0
            });
            *moment = moment.saturating_add(count);
        }
        if report.severity != ErrorSeverity::Corrected {
            page.lost = page.lost.saturating_add(count);
        }
    }

    /// What can be taken out against the fault of a module.
    pub fn offline(&self, dimm: &Dimm) -> Offline {
        let unaddressed_count = self.unaddressed.get(&dimm.id).copied().unwrap_or(0);
        let row = dimm.fault.as_ref().and_then(|fault| worst_row(&fault.cells));
        let action = dimm.fault.as_ref().map_or(MemoryAction::Watch, |fault| fault.action);
        // Errors that all came from one address without coordinates have no row, and one page.
        let is_one_address = dimm.fault_mode == FaultMode::Undetermined && action == MemoryAction::OfflinePages;
        let is_covered =
            is_one_address || matches!(dimm.fault_mode, FaultMode::Row | FaultMode::Rows | FaultMode::Cell);
        let mut offline = Offline { unaddressed_count, ..Offline::default() };
        if is_covered {
            offline.rows = match (row, dimm.fault_mode) {
                (Some(row), FaultMode::Rows) => near(dimm.fault.as_ref().map_or(&[][..], |fault| &fault.cells), row),
                (row, _) => row.into_iter().collect(),
            };
            let places: Vec<Option<RowPlace>> = match offline.rows.as_slice() {
                [] => vec![None],
                rows => rows.iter().copied().map(Some).collect(),
            };
            let key = |place| RowKey { dimm: dimm.id.clone(), place };
            let keys: Vec<RowKey> = places.into_iter().map(key).collect();
            offline.pages = self.pages(keys.iter(), |_| true);
        }
        // Pages that lost bits are worth taking out in any case; those with many errors, unless more fails than pages cover.
        let covers_no_part =
            matches!(dimm.fault_mode, FaultMode::Column | FaultMode::Bank | FaultMode::Banks | FaultMode::Rank);
        let of_module = self.rows.keys().filter(|key| key.dimm == dimm.id);
        let others = self.pages(of_module, |page| page.lost_count > 0 || (page.is_over_rate && !covers_no_part));
        let listed: BTreeSet<u64> = offline.pages.iter().map(|page| page.address).collect();
        offline.pages.extend(others.into_iter().filter(|page| !listed.contains(&page.address)));
        offline.pages.sort_by_key(|page| page.address);
        offline.is_advised = action != MemoryAction::Watch;
        offline.unknown = self.unknown(dimm, &offline, is_covered);
        offline
    }

    /// The pages of these rows that are wanted, each once: it may hold parts of several rows.
    fn pages<'a>(&self, keys: impl Iterator<Item = &'a RowKey>, is_wanted: impl Fn(&BadPage) -> bool) -> Vec<BadPage> {
        let mut together: BTreeMap<u64, Page> = BTreeMap::new();
        for (&address, page) in keys.filter_map(|key| self.rows.get(key)).flatten() {
            let one = together.entry(address).or_default();
            one.errors = one.errors.saturating_add(page.errors);
            one.lost = one.lost.saturating_add(page.lost);
            one.last_realtime_ns = one.last_realtime_ns.max(page.last_realtime_ns);
            for (&second, &count) in &page.moments {
                let moment = one.moments.entry(second).or_default();
                *moment = moment.saturating_add(count);
            }
        }
        let pages = together.into_iter().map(|(address, page)| {
            let worst_count = page.worst(self.rate.within_ns);
            BadPage {
                address,
                error_count: page.errors,
                lost_count: page.lost,
                last_realtime_ns: page.last_realtime_ns,
                worst_count,
                is_over_rate: worst_count >= self.rate.count,
            }
        });
        pages.filter(is_wanted).collect()
    }

    fn unknown(&self, dimm: &Dimm, offline: &Offline, is_covered: bool) -> Vec<String> {
        let mut unknown = Vec::new();
        if !offline.is_advised && offline.pages.iter().any(|page| !offline.is_wanted(page)) {
            unknown.push(
                "no command is shown for pages that lost no bits, because the advice is to do nothing yet".to_owned(),
            );
        }
        if !is_covered {
            unknown.push(match dimm.fault_mode {
                FaultMode::None => "no error was reported of this module".to_owned(),
                FaultMode::Undetermined => "the part that fails is not known, so neither are its pages".to_owned(),
                _ => "the part that fails crosses more rows than pages could cover: taking pages out does not help"
                    .to_owned(),
            });
        }
        if matches!(dimm.fault_mode, FaultMode::Row | FaultMode::Rows) {
            unknown.push(
                "not known are the pages of a row in which no error was seen yet: the interleaving of the memory controller spreads a row over 2 \
                 to 128 pages, and no report tells how"
                    .to_owned(),
            );
        }
        if offline.unaddressed_count > 0 {
            unknown.push(format!(
                "not known are the pages of {} that came without an address",
                counted(offline.unaddressed_count, "error", "errors")
            ));
        }
        if offline.pages.iter().any(|page| page.lost_count > 0) {
            unknown.push(
                "hard_offline_page kills the processes that use the page: its contents are lost already".to_owned(),
            );
        }
        if !offline.pages.is_empty() {
            unknown.push(
                "not known is whether the addresses still hold (they change when modules are moved or interleaving is set \
                 otherwise), nor whether the kernel can free the pages, which it says only when it is asked"
                    .to_owned(),
            );
        }
        unknown
    }
}

/// The row with the most cells; of several the one with the most errors.
fn worst_row(cells: &[surefoot_model::ErrorCell]) -> Option<RowPlace> {
    let mut rows: BTreeMap<RowPlace, (usize, u64)> = BTreeMap::new();
    for cell in cells {
        let row = rows.entry((cell.rank, cell.bank, cell.row)).or_default();
        *row = (row.0 + 1, row.1.saturating_add(cell.count));
    }
    rows.into_iter().max_by_key(|&(_, weight)| weight).map(|(row, _)| row)
}

/// The rows with errors of the same bank that are as near to a row as those of one fault are.
fn near(cells: &[surefoot_model::ErrorCell], (rank, bank, row): RowPlace) -> Vec<RowPlace> {
    let of_bank = cells.iter().filter(|cell| (cell.rank, cell.bank) == (rank, bank));
    let rows = of_bank.map(|cell| cell.row).filter(|other| other.abs_diff(row) <= NEAR_ROWS);
    let rows: BTreeSet<u32> = rows.collect();
    rows.into_iter().map(|row| (rank, bank, row)).collect()
}

impl Offline {
    /// Whether a page is to be taken out: the verdict says so of its row or cell, it had errors above the rate, or it lost bits.
    pub fn is_wanted(&self, page: &BadPage) -> bool {
        self.is_advised || page.lost_count > 0 || page.is_over_rate
    }
}

/// The command that takes a page out of use (`Documentation/ABI/testing/sysfs-memory-page-offline`): soft offlining copies the contents to
/// another page and kills no process. The contents of a page that lost bits cannot be copied; hard offlining drops them without reading
/// them. `None` if no action is needed yet.
pub fn command(offline: &Offline, page: &BadPage) -> Option<String> {
    let file = how(page).file();
    offline.is_wanted(page).then(|| format!("echo {:#x} > /sys/devices/system/memory/{file}", page.address))
}

/// How a page is taken out.
pub fn how(page: &BadPage) -> Offlining {
    if page.lost_count > 0 { Offlining::Hard } else { Offlining::Soft }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::import::Modules;
    use crate::reports::{McEvent, mc_event};

    fn report(row: u32, column: u32, address: u64) -> ErrorReport {
        let mut report = mc_event(&McEvent {
            label: "DIMM_A1".into(),
            address,
            grain_bits: Some(6),
            driver_detail: format!("APEI location: rank:0 bank:2 row:{row} col:{column}"),
            ..McEvent::default()
        });
        report.dimm = Some("DIMM_A1".to_owned());
        report
    }

    fn offline(reports: &[ErrorReport]) -> Offline {
        let (mut seen, mut modules) = (SeenPages::default(), Modules::default());
        for report in reports {
            let module = modules.add(report).unwrap();
            seen.add(report, &module);
        }
        seen.offline(&modules.dimms()[0])
    }

    #[test]
    fn the_pages_of_a_row_are_those_that_were_seen_and_no_others() {
        let mut reports: Vec<ErrorReport> =
            (0..6).map(|at| report(77, at * 8, 0x10_0000 + u64::from(at % 3) * 0x2000)).collect();
        reports.push(report(900, 8, 0x99_0000));
        reports.push(report(77, 8, 0));
        let found = offline(&reports);
        assert_eq!(found.rows, [(Some(0), 2, 77)]);
        assert_eq!(found.pages.iter().map(|page| page.address).collect::<Vec<_>>(), [0x10_0000, 0x10_2000, 0x10_4000]);
        assert_eq!((found.pages[0].error_count, found.unaddressed_count), (2, 1));
        let said = found.unknown.join("; ");
        assert!(
            said.contains("interleaving") && said.contains("1 error that came") && said.contains("nothing yet"),
            "{said}"
        );
        // It was not seen to come back, so nothing is to be done yet; a page that lost bits is taken out all the same.
        assert_eq!(command(&found, &found.pages[0]), None);
        let wanted = Some("echo 0x100000 > /sys/devices/system/memory/soft_offline_page".to_owned());
        let hard = "echo 0x100000 > /sys/devices/system/memory/hard_offline_page";
        assert_eq!(command(&found, &BadPage { lost_count: 1, ..found.pages[0] }).as_deref(), Some(hard));
        // The same row after four days stays.
        reports[0].at_realtime_ns = 1;
        reports[1].at_realtime_ns = 4 * 86_400_000_000_000;
        let stays = offline(&reports);
        assert_eq!(command(&stays, &stays.pages[0]), wanted, "{:?}", stays.unknown);
    }

    /// Two memory controllers or sockets with a module of one label each: the fault of one says nothing of the pages of the other, though their
    /// reports tell no row, or the same one.
    #[test]
    fn a_page_goes_only_for_the_module_whose_verdict_names_it() {
        let of = |number: u32, is_socket: bool, has_row: bool, day: u64, address: u64| {
            let mut report = report(77, 8, address);
            let place = &mut report.location;
            (place.socket, place.controller) = (is_socket.then_some(number), (!is_socket).then_some(number));
            if !has_row {
                (place.bank, place.row, place.column) = (None, None, None);
            }
            report.at_realtime_ns = 1 + day * 86_400_000_000_000;
            report
        };
        for (is_socket, has_row) in [(false, false), (true, true), (false, true)] {
            let (mut seen, mut modules) = (SeenPages::default(), Modules::default());
            for (number, day, address) in [(0, 0, 0x10_0040), (0, 4, 0x10_0040), (1, 4, 0x20_0040)] {
                let report = of(number, is_socket, has_row, day, address);
                let module = modules.add(&report).unwrap();
                seen.add(&report, &module);
            }
            let wanted = |dimm: &Dimm| {
                let offline = seen.offline(dimm);
                let pages = offline.pages.iter().filter(|page| offline.is_wanted(page));
                pages.map(|page| page.address).collect::<Vec<_>>()
            };
            let [one, two] = &modules.dimms()[..] else { panic!("two modules") };
            assert_eq!((wanted(one), wanted(two)), (vec![0x10_0000], vec![]), "{is_socket} {has_row}");
        }
    }

    #[test]
    fn rows_that_are_near_each_other_have_the_pages_of_each() {
        let of = |row: u32, from: u64| {
            (0..4).map(move |at| report(row, at * 8, from + u64::from(at) * 0x2000)).collect::<Vec<ErrorReport>>()
        };
        let reports = [of(77, 0x10_0000), of(79, 0x20_0000), vec![report(900, 8, 0x99_0000)]].concat();
        let found = offline(&reports);
        assert_eq!(found.rows, [(Some(0), 2, 77), (Some(0), 2, 79)], "{:?}", found.unknown);
        assert_eq!((found.pages.len(), found.pages[7].address), (8, 0x20_6000));
        // One page with bursts of both rows is one page.
        let shared = [of(77, 0x10_0000), of(79, 0x10_0000)].concat();
        let found = offline(&shared);
        assert_eq!((found.pages.len(), found.pages[0].error_count), (4, 2));
    }

    #[test]
    fn the_page_of_one_address_that_stays_bad_is_taken_out_without_coordinates() {
        let bare = |day: u64| {
            let mut report = report(77, 8, 0x10_0040);
            (report.location.bank, report.location.row, report.location.column) = (None, None, None);
            report.at_realtime_ns = 1 + day * 86_400_000_000_000;
            report
        };
        let found = offline(&[bare(0), bare(4)]);
        assert!(found.rows.is_empty());
        let wanted = Some("echo 0x100000 > /sys/devices/system/memory/soft_offline_page".to_owned());
        assert_eq!(command(&found, &found.pages[0]), wanted, "{:?}", found.unknown);
        assert_eq!(offline(&[bare(0)]).pages, [], "it was not seen to come back");
    }

    #[test]
    fn a_bank_has_no_pages_but_those_that_lost_bits() {
        let mut reports: Vec<ErrorReport> =
            (0..9).map(|at| report(at * 100, at * 8, u64::from(at + 1) * 0x10_0000)).collect();
        assert_eq!(offline(&reports).pages, []);
        reports[3].severity = ErrorSeverity::Uncorrected;
        let found = offline(&reports);
        assert_eq!(
            found.pages.iter().map(|page| (page.address, page.lost_count)).collect::<Vec<_>>(),
            [(0x40_0000, 1)]
        );
        assert!(found.unknown[0].contains("does not help"), "{:?}", found.unknown);
    }

    #[test]
    fn a_page_above_the_rate_is_taken_out_before_its_fault_is_known_to_stay() {
        let bare = |second: u64, count: u32| {
            let mut report = report(77, 8, 0x10_0040);
            (report.location.bank, report.location.row, report.location.column) = (None, None, None);
            (report.at_realtime_ns, report.count) = (second * SECOND_NS, count);
            report
        };
        const DAY_S: u64 = 24 * 3600;
        let wanted = Some("echo 0x100000 > /sys/devices/system/memory/soft_offline_page".to_owned());
        // 25 and 24 in a day, 25 a day later: never 50 within 24 hours, in any order.
        let mut reports = [bare(1, 25), bare(DAY_S, 24), bare(DAY_S + 1, 25)];
        reports.reverse();
        let found = offline(&reports);
        assert_eq!(found.pages, [], "it was not seen to come back after more than a day");
        let found = offline(&[bare(1, 25), bare(DAY_S, 25)]);
        assert_eq!((found.pages[0].worst_count, found.pages[0].is_over_rate), (50, true));
        assert_eq!(command(&found, &found.pages[0]), wanted, "{:?}", found.unknown);
        // Without times nothing is known of a rate.
        assert_eq!(offline(&[bare(0, 500)]).pages, []);
        // A bank that fails has more pages than could be taken out.
        let mut many: Vec<ErrorReport> =
            (0..9).map(|at| report(at * 100, at * 8, u64::from(at + 1) * 0x10_0000)).collect();
        many.iter_mut().for_each(|report| (report.at_realtime_ns, report.count) = (SECOND_NS, 60));
        assert_eq!(offline(&many).pages, []);
    }
}
