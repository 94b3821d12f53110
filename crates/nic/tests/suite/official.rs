//! The official tests of rv32ui and rv32um (riscv-software-src/riscv-tests), in their form for physical memory, on our
//! processor. `tests/riscv-tests.sh` builds them from a checkout, and SUREFOOT_RISCV_TESTS names the folder.
//!
//! unsupported in the set-up: no package of crates.io, PyPI or npm ships these tests. docs/hardware-checklist.md says what was looked at.
//!
//! Around each test stands a frame that sets up control and status registers and goes to user mode, and at the end an `ecall`
//! tells what came of it. This processor has no such registers. Where it traps at one, the test is begun again with an
//! instruction in that place that does what is left of it: a read gives zero, a write does nothing, and `mret` goes to where
//! `mepc` points. Nothing else is touched.

use super::host::Host;
use super::program::word;
use std::collections::BTreeMap;
use std::path::Path;
use surefoot_nic::cpu::Operation::{Addi, Jal};
use surefoot_nic::cpu::{Cause, Trap};
use surefoot_nic::device::{Device, DeviceConfig, Stop};
use surefoot_nic::firmware::Firmware;
use surefoot_testkit::not_run::not_run;

const FOLDER: &str = "SUREFOOT_RISCV_TESTS";
/// No test does as much.
const INSTRUCTIONS_MAX: u64 = 100_000;
/// The frame has about twenty.
const REPLACED_MAX: usize = 64;

const MEPC: u32 = 0x341;
const MRET: u32 = 0x3020_0073;
/// The major opcode of control and status registers, `ecall` and `mret`.
const SYSTEM: u32 = 0x73;
/// What the frame puts into x17 before the last `ecall`; x10 says what came of it.
const EXIT: u32 = 93;

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    /// Its case of this number.
    Failed(u32),
    Trapped(Cause),
    Endless,
}

/// An instruction that does what is left of one of a frame without control and status registers; `mepc` is what the frame has
/// written there.
fn replacement(instruction: u32, pc: u32, mepc: u32) -> Option<u32> {
    if instruction & 0x7f != SYSTEM {
        return None;
    }
    if instruction == MRET {
        return Some(word(Jal, 0, 0, 0, mepc.wrapping_sub(pc) as i32));
    }
    let is_register_access = instruction >> 12 & 3 != 0;
    is_register_access.then(|| word(Addi, (instruction >> 7 & 31) as u8, 0, 0, 0))
}

fn run(image: &[u8]) -> End {
    let mut image = image.to_vec();
    let mut mepc = 0;
    for _ in 0..REPLACED_MAX {
        let mut device = Device::new(DeviceConfig::default());
        device.load(&image).unwrap();
        device.reset(1);
        let Stop::Halted(Trap { cause, pc, value }) = device.run(&mut Host::new(), INSTRUCTIONS_MAX * 8) else {
            return End::Endless;
        };
        let x = device.core().x;
        let found = (cause == Cause::Illegal).then(|| replacement(value, pc, mepc)).flatten();
        let Some(replaced) = found else {
            return match cause {
                Cause::EnvironmentCall if (x[17], x[10]) == (EXIT, 0) => End::Passed,
                Cause::EnvironmentCall if x[17] == EXIT => End::Failed(x[10] >> 1),
                _ => End::Trapped(cause),
            };
        };
        if value >> 20 == MEPC {
            mepc = x[(value >> 15 & 31) as usize];
        }
        image[pc as usize..pc as usize + 4].copy_from_slice(&replaced.to_le_bytes());
    }
    End::Endless
}

fn run_all(folder: &Path) -> BTreeMap<String, End> {
    let mut ends = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("rv32u") {
            let elf = std::fs::read(entry.path()).unwrap();
            let firmware = Firmware::read(&elf).unwrap_or_else(|error| panic!("{name}: {error}"));
            ends.insert(name, run(&firmware.image));
        }
    }
    ends
}

#[test]
fn the_official_tests_pass() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        let why = format!(
            "unsupported: no package registry ships the official tests; build them with crates/nic/tests/riscv-tests.sh and set {FOLDER}"
        );
        not_run("suite::official::the_official_tests_pass", &why);
        return;
    };
    let ends = run_all(Path::new(&folder));
    // Misaligned accesses are traps of this processor, as firmware/ncp/include/device.h says.
    const MISALIGNED: &str = "rv32ui-p-ma_data";
    let others: Vec<_> = ends.iter().filter(|(name, end)| *name != MISALIGNED && **end != End::Passed).collect();
    println!("{} tests, of which {} did not pass: {others:?}", ends.len(), others.len());
    println!("{}", ends.keys().map(String::as_str).collect::<Vec<_>>().join(" "));
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(ends.get(MISALIGNED), Some(&End::Trapped(Cause::LoadMisaligned)));
    let count = |group: &str| ends.keys().filter(|name| name.starts_with(group)).count();
    assert!(count("rv32ui-p-") >= 42 && count("rv32um-p-") >= 8, "{ends:?}");
}

/// The frame in small: what it does with registers that are not there, and both ways to end.
#[test]
fn a_frame_is_gone_through_and_a_failure_is_told() {
    let csrw = |csr: u32, rs1: u32| csr << 20 | rs1 << 15 | 1 << 12 | SYSTEM;
    let csrr = |rd: u32, csr: u32| csr << 20 | 2 << 12 | rd << 7 | SYSTEM;
    let end = |result: i32| {
        let words = [
            word(Addi, 5, 0, 0, 24),
            csrw(MEPC, 5),
            csrr(10, 0xf14),
            word(Addi, 10, 10, 0, result),
            MRET,
            word(Addi, 10, 0, 0, 0),
            // Where mepc points, behind an instruction that is jumped over.
            word(Addi, 17, 0, 0, EXIT as i32),
            SYSTEM,
        ];
        run(&words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<_>>())
    };
    assert_eq!((end(0), end(7 << 1 | 1)), (End::Passed, End::Failed(7)));
    assert_eq!(run(&[0; 4]), End::Trapped(Cause::Illegal));
    assert_eq!(run(&word(Jal, 0, 0, 0, 0).to_le_bytes()), End::Endless);
}
