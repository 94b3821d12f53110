//! Errors that the memory controllers' drivers report: how many since the watch began.

use std::collections::BTreeMap;
use std::path::PathBuf;
use surefoot_hostfs::Root;
use surefoot_model::Digits;

/// Controllers that are read; the largest machines have a few dozen.
const CONTROLLERS: usize = 256;

/// Reads the counts of all controllers; the sum of their rises never falls.
pub(crate) struct ErrorReports {
    root: Root,
    /// Each count's file and what it said last.
    counts: BTreeMap<PathBuf, Option<u64>>,
    seen: u64,
}

impl ErrorReports {
    /// Finds the controllers that are there now, whatever their numbers: one whose driver found no memory leaves a hole.
    pub(crate) fn open(root: &Root) -> Self {
        let found = std::fs::read_dir(root.sys("devices/system/edac/mc")).into_iter().flatten().flatten();
        let is_controller = |name: &str| name.strip_prefix("mc").is_some_and(|number| number.digits::<u32>().is_some());
        let controllers = found.filter(|entry| entry.file_name().to_str().is_some_and(is_controller));
        let counts = controllers
            .take(CONTROLLERS)
            .flat_map(|entry| ["ce_count", "ue_count"].map(|count| (entry.path().join(count), None)))
            .collect();
        let mut reports = ErrorReports { root: root.clone(), counts, seen: 0 };
        reports.look();
        reports.seen = 0;
        reports
    }

    /// Whether there is any controller.
    pub(crate) fn exist(&self) -> bool {
        !self.counts.is_empty()
    }

    /// How many were reported since it was opened, up to now.
    pub(crate) fn look(&mut self) -> u64 {
        for (path, last) in &mut self.counts {
            let text = self.root.read_again(path).ok();
            let Some(now) = text.and_then(|text| text.trim().digits::<u64>()) else { continue };
            // Anybody may reset the counts; what is there then came since.
            let rise = match *last {
                Some(before) if now >= before => now - before,
                Some(_) => now,
                None => 0,
            };
            self.seen = self.seen.saturating_add(rise);
            *last = Some(now);
        }
        self.seen
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn counts_may_be_reset_and_controllers_may_have_holes_in_their_numbers() {
        let file = |controller: u32, kind: &str| format!("sys/devices/system/edac/mc/mc{controller}/{kind}_count");
        let tree = HostTree::new()
            .file(file(0, "ce"), "7\n")
            .file(file(0, "ue"), "0\n")
            .file(file(2, "ce"), "100\n")
            .file("sys/devices/system/edac/mc/power/control", "auto\n");
        let mut reports = ErrorReports::open(&Root::at(tree.path()));
        assert!(reports.exist());
        assert_eq!(reports.look(), 0, "what was there before came before");
        let write = |controller, kind: &str, text: &str| {
            std::fs::write(tree.path().join(file(controller, kind)), text).unwrap();
        };
        write(2, "ce", "103\n");
        assert_eq!(reports.look(), 3);
        write(0, "ce", "2\n");
        assert_eq!(reports.look(), 5, "reset, and two since");
        write(0, "ce", "torn");
        write(0, "ue", "1\n");
        assert_eq!(reports.look(), 6);
        assert!(!ErrorReports::open(&Root::at(tree.path().join("sys"))).exist());
    }
}
