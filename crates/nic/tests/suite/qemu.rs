//! QEMU's riscv32 as the oracle: the same random programs in ours and in QEMU, and the same registers, memory, traps
//! and instruction counts after them.
//!
//! All programs run in one QEMU. Its memory is a file, so what goes in and what comes out needs no device: a monitor in
//! machine mode, made by our own encoder, runs each program in user mode, at virtual address 0 of an address space that
//! maps as much as our SRAM has, until it traps.

use super::corners::corner_programs;
use super::host::{Host, device};
use super::program::{Program, word};
use super::random_program::{DATA, Random, RandomProgram, random_program};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_nic::cpu::{Cause, Operation, Operation::*, Trap};
use surefoot_nic::device::registers::SRAM_BYTES;
use surefoot_nic::device::{Device, Stop};
use surefoot_testkit::not_run::not_run;

const EMULATOR: &str = "qemu-system-riscv32";
/// The base processor without what rv32im does not have, which would make some illegal words legal.
const PROCESSOR: &str = "rv32,a=off,c=off,d=off,f=off,h=off,v=off,zba=off,zbb=off,zbc=off,zbs=off";

const PROGRAMS: usize = 600;
/// Programs that run longer are not used.
const INSTRUCTIONS_MAX: u64 = 5000;

/// Offsets in QEMU's memory, which begins at physical address 0x80000000.
const MEMORY: u32 = 0x8000_0000;
const ROOT_TABLE: u32 = 0x2000;
const TABLE: u32 = 0x3000;
const RECORDS: u32 = 0x1_0000;
const SPACES: u32 = 0x20_0000;
const MEMORY_BYTES: u64 = 128 << 20;

/// Words of a record: in, x1 to x31, and in the place of x0 the first entry of the page table; then out.
const RECORD_BYTES: u32 = 512;
const OUT: i32 = 128;
const OUT_CAUSE: i32 = 256;
const OUT_PC: i32 = 260;
const OUT_VALUE: i32 = 264;
const OUT_COUNT: i32 = 268;
const IN_COUNT: i32 = 272;

/// Control and status registers.
mod csr {
    pub const MSTATUS: u32 = 0x300;
    pub const MTVEC: u32 = 0x305;
    pub const MSCRATCH: u32 = 0x340;
    pub const MEPC: u32 = 0x341;
    pub const MCAUSE: u32 = 0x342;
    pub const MTVAL: u32 = 0x343;
    pub const PMPCFG0: u32 = 0x3a0;
    pub const PMPADDR0: u32 = 0x3b0;
    pub const MINSTRET: u32 = 0xb02;
    pub const SATP: u32 = 0x180;
}

/// `rd = csr; csr = rs1`
fn csrrw(rd: u32, csr: u32, rs1: u32) -> u32 {
    csr << 20 | rs1 << 15 | 1 << 12 | rd << 7 | 0x73
}

/// `rd = csr`
fn csrr(rd: u32, csr: u32) -> u32 {
    csr << 20 | 2 << 12 | rd << 7 | 0x73
}

const MRET: u32 = 0x3020_0073;
const SFENCE_VMA: u32 = 0x1200_0073;

/// The monitor: x31 is the record, x27 to x30 are scratch.
fn monitor(programs: u32) -> Vec<u8> {
    let mut m = Program::default();
    let trap_at = 0x200;
    m.load(1, MEMORY + trap_at).push(csrrw(0, csr::MTVEC, 1));
    // User mode may touch all of memory, as far as the page table lets it; WFI is illegal there.
    m.load(1, u32::MAX).push(csrrw(0, csr::PMPADDR0, 1)).load(1, 0x1f).push(csrrw(0, csr::PMPCFG0, 1));
    m.load(1, MEMORY + RECORDS).push(csrrw(0, csr::MSCRATCH, 1));
    let next = m.here();
    m.push(csrr(31, csr::MSCRATCH)).load(30, MEMORY + RECORDS + programs * RECORD_BYTES);
    // After the last one, the machine's test device ends QEMU.
    m.push(word(Bne, 0, 31, 30, 24));
    m.load(1, 0x10_0000).load(2, 0x5555).push(word(Sw, 0, 1, 2, 0));
    // The program's address space: as many pages as the SRAM has, in sequence.
    m.push(word(Lw, 29, 31, 0, 0)).load(28, MEMORY + TABLE).load(27, MEMORY + TABLE + SRAM_BYTES / 1024);
    m.push(word(Sw, 0, 28, 29, 0)).push(word(Addi, 28, 28, 0, 4)).push(word(Addi, 29, 29, 0, 0x400));
    m.push(word(Bne, 0, 28, 27, -12));
    m.load(30, 0x8000_0000 | (MEMORY + ROOT_TABLE) >> 12).push(csrrw(0, csr::SATP, 30));
    m.push(SFENCE_VMA).push(word(FenceI, 0, 0, 0, 0));
    m.load(30, 1 << 21).push(csrrw(0, csr::MSTATUS, 30)).push(csrrw(0, csr::MEPC, 0));
    m.push(csrr(30, csr::MINSTRET)).push(word(Sw, 0, 31, 30, IN_COUNT));
    for register in 1..32 {
        m.push(word(Lw, register, 31, 0, i32::from(register) * 4));
    }
    m.push(MRET);
    assert!(m.here() <= trap_at);
    while m.here() < trap_at {
        m.push(0);
    }
    m.push(csrrw(31, csr::MSCRATCH, 31));
    for register in 1..31 {
        m.push(word(Sw, 0, 31, register, OUT + i32::from(register) * 4));
    }
    for (from, to) in [
        (csr::MINSTRET, OUT_COUNT),
        (csr::MSCRATCH, OUT + 124),
        (csr::MCAUSE, OUT_CAUSE),
        (csr::MEPC, OUT_PC),
        (csr::MTVAL, OUT_VALUE),
    ] {
        m.push(csrr(1, from)).push(word(Sw, 0, 31, 1, to));
    }
    m.push(word(Addi, 31, 31, 0, RECORD_BYTES as i32)).push(csrrw(0, csr::MSCRATCH, 31)).jump(next);
    m.image()
}

/// What is the same in both: registers, memory, the trap, and how many instructions were done.
pub struct Outcome {
    x: [u32; 32],
    pub memory: Vec<u8>,
    trap: Trap,
    instructions: u64,
    /// What was done, in order; of our own run only.
    operations: Vec<Operation>,
}

/// Our own run; `None` for what both need not do alike.
pub fn ours(program: &RandomProgram) -> Option<Outcome> {
    let mut device: Device = device(&Program::default());
    device.write_sram(0, &program.code).unwrap();
    device.write_sram(DATA, &program.data).unwrap();
    for register in 1..32 {
        for bit in (0..32).filter(|bit| program.x[usize::from(register)] >> bit & 1 == 1) {
            device.flip(surefoot_nic::device::Space::Register(register), 0, bit).unwrap();
        }
    }
    device.trace(INSTRUCTIONS_MAX as usize);
    let Stop::Halted(trap) = device.run(&mut Host::new(), INSTRUCTIONS_MAX * 8) else { return None };
    let instructions = device.instruction_count();
    // QEMU has no special registers there, and does misaligned accesses.
    let steps = device.take_trace().0;
    let uses_registers = steps.iter().any(|step| step.access.is_some());
    if uses_registers || matches!(trap.cause, Cause::LoadMisaligned | Cause::StoreMisaligned) {
        return None;
    }
    let memory = device.read_sram(0, SRAM_BYTES as usize).unwrap().to_vec();
    // A store into code without a fence holds at once here, and in QEMU at some time.
    let words = program.code.chunks(4).zip(memory.chunks(4)).enumerate();
    let mut changed = words.filter(|(_, (before, after))| before != after).map(|(index, _)| index as u32 * 4);
    if changed.any(|address| !program.patched.contains(&address)) {
        return None;
    }
    let operations = steps.iter().map(|step| step.instruction.operation).collect();
    Some(Outcome { x: device.core().x, memory, trap, instructions, operations })
}

/// Runs the programs in QEMU. Without a whole SRAM's pages of its own, a program would see the one before.
fn theirs(programs: &[RandomProgram]) -> Vec<Outcome> {
    let mut memory = tempfile::NamedTempFile::new().unwrap();
    let file = memory.as_file_mut();
    file.set_len(MEMORY_BYTES).unwrap();
    let put = |at: u32, bytes: &[u8]| file.write_all_at(bytes, u64::from(at)).unwrap();
    put(0, &monitor(programs.len() as u32));
    put(ROOT_TABLE, &((MEMORY + TABLE) >> 12 << 10 | 1).to_le_bytes());
    for (index, program) in programs.iter().enumerate() {
        let space = SPACES + index as u32 * SRAM_BYTES;
        // Valid, readable, writable, executable, of the user, accessed and dirty.
        let entry = (MEMORY + space) >> 12 << 10 | 0xdf;
        let words = std::iter::once(entry).chain(program.x[1..].iter().copied());
        put(RECORDS + index as u32 * RECORD_BYTES, &words.flat_map(u32::to_le_bytes).collect::<Vec<_>>());
        put(space, &program.code);
        put(space + DATA, &program.data);
    }
    emulate(memory.path());
    (0..programs.len() as u32).map(|index| outcome(memory.as_file(), index)).collect()
}

fn emulate(memory: &std::path::Path) {
    let mut emulator = Command::new(EMULATOR)
        .args(["-M", "virt,memory-backend=ram", "-m", &format!("{}M", MEMORY_BYTES >> 20), "-cpu", PROCESSOR])
        .args([
            "-object",
            &format!("memory-backend-file,id=ram,share=on,size={MEMORY_BYTES},mem-path={}", memory.display()),
        ])
        // One instruction a tick, so that the counter of instructions is exact.
        .args(["-icount", "shift=0", "-bios", "none", "-display", "none", "-monitor", "none", "-serial", "none"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(600);
    loop {
        if let Some(status) = emulator.try_wait().unwrap() {
            assert!(status.success(), "{EMULATOR} ended with {status}");
            return;
        }
        if Instant::now() > deadline {
            emulator.kill().unwrap();
            emulator.wait().unwrap();
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn outcome(file: &File, index: u32) -> Outcome {
    let mut record = [0; RECORD_BYTES as usize];
    file.read_exact_at(&mut record, u64::from(RECORDS + index * RECORD_BYTES)).unwrap();
    let at = |offset: i32| u32::from_le_bytes(record[offset as usize..offset as usize + 4].try_into().unwrap());
    let mut x = [0; 32];
    for (register, value) in x.iter_mut().enumerate().skip(1) {
        *value = at(OUT + register as i32 * 4);
    }
    let mut memory = vec![0; SRAM_BYTES as usize];
    file.read_exact_at(&mut memory, u64::from(SPACES + index * SRAM_BYTES)).unwrap();
    let cause = match at(OUT_CAUSE) {
        0 => Cause::FetchMisaligned,
        2 => Cause::Illegal,
        3 => Cause::Breakpoint,
        8 => Cause::EnvironmentCall,
        // Page faults: what our memory does not have, QEMU's page table does not map.
        12 => Cause::FetchFault,
        13 => Cause::LoadFault,
        15 => Cause::StoreFault,
        other => panic!("program {index}: cause {other} at {:#x} with {:#x} in QEMU", at(OUT_PC), at(OUT_VALUE)),
    };
    let trap = Trap { cause, pc: at(OUT_PC), value: at(OUT_VALUE) };
    let instructions = u64::from(at(OUT_COUNT).wrapping_sub(at(IN_COUNT)));
    Outcome { x, memory, trap, instructions, operations: Vec::new() }
}

/// Says that a test is not run, where it cannot be.
fn is_missing(test: &str) -> bool {
    let asked = Command::new(EMULATOR).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_err() {
        not_run(test, &format!("{EMULATOR} is not installed (xtask/setup.sh test installs it)"));
    }
    asked.is_err()
}

/// Compares each program's outcome, and gives how often each cause ended one.
fn compare(names: &[String], programs: &[RandomProgram], expected: &[Outcome]) -> BTreeMap<Cause, usize> {
    // The monitor's own instructions around a program are the same each time; whether QEMU counts the one that traps
    // depends on its cause, and for an illegal one on whether that shows when it is translated or only when it is
    // executed, as with accesses to control registers.
    let mut overheads = BTreeMap::new();
    let mut ends = BTreeMap::new();
    for ((ours, qemu), name) in expected.iter().zip(theirs(programs)).zip(names) {
        let Trap { cause, pc, value } = ours.trap;
        assert_eq!((cause, pc), (qemu.trap.cause, qemu.trap.pc), "trap of {name}, {:?}", ours.trap);
        if matches!(cause, Cause::Illegal | Cause::LoadFault | Cause::StoreFault | Cause::FetchFault) {
            // Of a word that is no 32-bit instruction, QEMU tells the half that a compressed one would have.
            let mask = if cause == Cause::Illegal && value & 3 != 3 { 0xffff } else { u32::MAX };
            assert_eq!(value & mask, qemu.trap.value & mask, "trap value of {name}");
        }
        assert_eq!(ours.x, qemu.x, "registers of {name}");
        let differs = ours.memory.iter().zip(&qemu.memory).position(|(ours, qemu)| ours != qemu);
        assert_eq!(differs, None, "memory of {name}");
        let overhead = qemu.instructions - ours.instructions;
        let is_register_access = cause == Cause::Illegal && value & 0x7f == 0x73 && value >> 12 & 3 != 0;
        let known = *overheads.entry((cause, is_register_access)).or_insert(overhead);
        assert_eq!(overhead, known, "instructions of {name}, which ended by {cause:?} {value:#x}");
        *ends.entry(cause).or_default() += 1;
    }
    let (least, most) = (overheads.values().min().unwrap(), overheads.values().max().unwrap());
    assert!(most - least <= 1, "{overheads:?}");
    ends
}

#[test]
fn random_programs_do_the_same_in_qemu() {
    if is_missing("suite::qemu::random_programs_do_the_same_in_qemu") {
        return;
    }
    let (mut names, mut programs, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    // Other programs: SUREFOOT_SEED=1000000 and so on.
    let first = std::env::var("SUREFOOT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut seed: u64 = first;
    while programs.len() < PROGRAMS {
        seed += 1;
        assert!(
            seed - first < 20 * PROGRAMS as u64,
            "only {} programs in {} come to an end",
            programs.len(),
            seed - first
        );
        let program = random_program(&mut Random::new(seed));
        if let Some(outcome) = ours(&program) {
            names.push(format!("seed {seed}"));
            programs.push(program);
            expected.push(outcome);
        }
    }
    let mut done = HashMap::new();
    for operation in expected.iter().flat_map(|outcome| &outcome.operations) {
        *done.entry(*operation).or_insert(0) += 1;
    }
    let ends = compare(&names, &programs, &expected);
    println!("{PROGRAMS} programs of {} made; ends: {ends:?}; done: {done:?}", seed - first);
    // Enough of each kind was compared.
    for cause in [Cause::Illegal, Cause::EnvironmentCall, Cause::Breakpoint, Cause::LoadFault, Cause::FetchMisaligned] {
        assert!(ends.get(&cause).is_some_and(|count| *count >= 5), "{cause:?}: {ends:?}");
    }
    assert_eq!(done.len(), 47, "all but ecall and ebreak, which end a program");
    assert!(done.values().all(|count| *count >= 50), "{done:?}");
}

#[test]
fn the_corners_of_each_instruction_are_the_same_in_qemu() {
    if is_missing("suite::qemu::the_corners_of_each_instruction_are_the_same_in_qemu") {
        return;
    }
    let (names, programs): (Vec<_>, Vec<_>) =
        corner_programs().into_iter().map(|(operation, program)| (format!("{operation:?}"), program)).unzip();
    let expected: Vec<Outcome> = programs.iter().map(|program| ours(program).unwrap()).collect();
    assert_eq!(compare(&names, &programs, &expected).values().sum::<usize>(), 49);
}
