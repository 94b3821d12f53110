//! Trees for the tests: fixtures, and small controllers made up.

use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_memory::look::Looker;
use surefoot_model::{Dimm, MemoryLook};
use surefoot_testkit::HostTree;

pub const MC: &str = "sys/devices/system/edac/mc";

/// A machine of `tests/fixtures`.
pub fn fixture(name: &str) -> HostTree {
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.tree")))
}

/// One controller of an Intel driver with so many corrected errors for each module.
pub fn controller(tree: HostTree, index: u32, errors: &[u64]) -> HostTree {
    let mc = format!("{MC}/mc{index}");
    let mut tree = tree
        .file(format!("{mc}/mc_name"), format!("Skylake Socket#0 IMC#{index}\n"))
        .file(format!("{mc}/ce_count"), format!("{}\n", errors.iter().sum::<u64>()))
        .file(format!("{mc}/ue_count"), "0\n")
        .file(format!("{mc}/ce_noinfo_count"), "0\n")
        .file(format!("{mc}/ue_noinfo_count"), "0\n")
        .file(format!("{mc}/seconds_since_reset"), "1000\n");
    for (dimm, count) in errors.iter().enumerate() {
        let own = format!("{mc}/dimm{dimm}");
        tree = tree
            .file(format!("{own}/dimm_ce_count"), format!("{count}\n"))
            .file(format!("{own}/dimm_ue_count"), "0\n")
            .file(format!("{own}/dimm_label"), format!("DIMM_{index}_{dimm}\n"))
            .file(format!("{own}/dimm_location"), format!("channel {dimm} slot 0 \n"))
            .file(format!("{own}/size"), "16384\n");
    }
    tree
}

pub fn look(tree: &HostTree) -> MemoryLook {
    Looker::new(Root::at(tree.path())).look()
}

/// The module with this name.
pub fn dimm<'a>(look: &'a MemoryLook, id: &str) -> &'a Dimm {
    look.dimms.iter().find(|dimm| dimm.id == id).unwrap_or_else(|| panic!("{id}: {:?}", look.dimms))
}
