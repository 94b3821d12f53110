//! One error that two tracepoints tell is told once.
//!
//! Of an error that an EDAC driver decodes the kernel traces both the registers (`mce_record`, first) and what the driver makes of
//! them (`mc_event`, which knows the module). The first is held back for a turn, and dropped where the second comes for the same
//! page. Where a collector swallows the error before EDAC sees it, only the first comes, and is told.

use std::collections::BTreeMap;
use surefoot_model::{ErrorReport, MemorySource};

/// Reports that are held back; beyond these they are told at once.
const HELD_MAX: usize = 1024;
/// Pages that are remembered.
const PAGES_MAX: usize = 4096;
/// Low bits of an address within a page.
const PAGE_BITS: u32 = 12;

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Once {
    turn: u64,
    held: Vec<(u64, ErrorReport)>,
    /// Pages that a driver has told of, and in which turn last.
    told: BTreeMap<u64, u64>,
}

impl Once {
    /// Takes a report in; gives on what is to be told now.
    pub(super) fn take(&mut self, report: ErrorReport, each: &mut dyn FnMut(ErrorReport)) {
        match (report.source, page_of(&report)) {
            (MemorySource::McEvent, Some(page)) if self.told.len() < PAGES_MAX || self.told.contains_key(&page) => {
                self.told.insert(page, self.turn);
                each(report);
            }
            (MemorySource::MceRecord, Some(_)) if self.held.len() < HELD_MAX => self.held.push((self.turn, report)),
            _ => each(report),
        }
    }

    /// A turn has ended: what was held back since the turn before is told, unless a driver told it.
    pub(super) fn end_turn(&mut self, each: &mut dyn FnMut(ErrorReport)) {
        let turn = self.turn;
        self.release(each, |held| held < turn);
        self.told.retain(|_, told| *told + 1 >= turn);
        self.turn += 1;
    }

    /// Nothing comes any more.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(ErrorReport)) {
        self.release(each, |_| true);
    }

    fn release(&mut self, each: &mut dyn FnMut(ErrorReport), is_due: impl Fn(u64) -> bool) {
        let held = std::mem::take(&mut self.held);
        for (turn, report) in held {
            let is_told = page_of(&report).is_some_and(|page| self.told.contains_key(&page));
            match (is_told, is_due(turn)) {
                (true, _) => {}
                (false, true) => each(report),
                (false, false) => self.held.push((turn, report)),
            }
        }
    }
}

fn page_of(report: &ErrorReport) -> Option<u64> {
    report.location.address.map(|address| address >> PAGE_BITS)
}
