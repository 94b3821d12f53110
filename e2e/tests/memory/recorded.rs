//! A recorded host with sixteen modules, and the trace of a failing row.

use std::path::Path;
use surefoot_testkit::HostTree;

/// The row that fails.
pub const ROW: u32 = 0x1a2b;

/// A report of a corrected error of the module `DIMM_C1`, as the kernel traces it.
pub fn line(column: u32) -> String {
    format!(
        "     kworker/0:1-123     [000] .....   1.000000: mc_event: 1 Corrected error: memory read error on DIMM_C1 (mc:1 \
         location:0:0:-1 address:0x00000000 grain:32 syndrome:0x00000000  err_code:0x0101:0x0090 ProcessorSocketId:0x0 \
         MemoryControllerId:0x1 PhysicalRankId:0x0 Row:{ROW:#x} Column:{column:#x} Bank:0x3 BankGroup:0x1)\n"
    )
}

/// The host; its trace ends with a line that nobody understands.
pub fn host() -> HostTree {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/memory/tests/fixtures");
    let trace: String = (0..9).map(|number| line(0x10 + 8 * number)).collect();
    let odd = "     kworker/0:1-123     [000] .....   1.000000: mc_event: what nobody understands\n";
    HostTree::unpacked(fixtures.join("intel-icelake-16dimm.tree")).file("sys/kernel/tracing/trace_pipe", trace + odd)
}
