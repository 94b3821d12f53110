//! Every instruction with the operands at which it turns: one program for each, whose results lie in its data.

use super::host::Host;
use super::program::{Program, word};
use super::qemu;
use super::random_program::{
    ARITHMETIC, BRANCHES, CORNERS, DATA, DATA_BYTES, IMMEDIATE, LOADS, RandomProgram, SHIFTS, STORES,
};
use surefoot_nic::cpu::Operation::{self, *};
use surefoot_nic::device::{Device, DeviceConfig, Stop};

const IMMEDIATES: [i32; 11] = [0, 1, -1, 2, 31, 127, -128, 255, 1000, 2047, -2048];
const UPPER: [u32; 6] = [0, 0x1000, 0x7fff_f000, 0x8000_0000, 0xffff_f000, 0x1234_5000];
const AMOUNTS: [i32; 10] = [0, 1, 2, 7, 8, 15, 16, 24, 30, 31];

/// Where a program puts its results.
const RESULTS: u32 = DATA + 0x100;

/// CRC-32 of the results of each instruction's program, as QEMU 7.2 has them: what an interpreter is held to where there
/// is no QEMU. `suite::qemu` compares them with QEMU's of this machine.
const EXPECTED: &[(Operation, u32)] = &[
    (Lui, 0xde0c302c),
    (Auipc, 0xccf9dafe),
    (Jal, 0x622df5c7),
    (Jalr, 0x19a60a7e),
    (Fence, 0x1b26f0ee),
    (FenceI, 0x1b26f0ee),
    (Ecall, 0x93238353),
    (Ebreak, 0x93238353),
    (Add, 0x5d03a705),
    (Sub, 0xbe944e59),
    (Sll, 0x5d3af3fa),
    (Slt, 0xb1f647e7),
    (Sltu, 0x4350d114),
    (Xor, 0x4c2665f2),
    (Srl, 0x4239b4cf),
    (Sra, 0x1a6c26db),
    (Or, 0xc77e937b),
    (And, 0xae40f940),
    (Mul, 0x3e1a5fc4),
    (Mulh, 0x3d3e91a2),
    (Mulhsu, 0x475cc861),
    (Mulhu, 0x4d03c569),
    (Div, 0x78f3f024),
    (Divu, 0x8d9f943a),
    (Rem, 0xc06856f7),
    (Remu, 0x61e1dca5),
    (Addi, 0x101f2765),
    (Slti, 0x58ab478d),
    (Sltiu, 0x1978ebe9),
    (Xori, 0x97ca15d2),
    (Ori, 0x00ef4193),
    (Andi, 0xdcb2f6b7),
    (Slli, 0xd8f767d3),
    (Srli, 0xe998da1b),
    (Srai, 0x3102267d),
    (Beq, 0xf3b35742),
    (Bne, 0x44d55746),
    (Blt, 0x2fcf2c3d),
    (Bge, 0x98a92c39),
    (Bltu, 0xe3559169),
    (Bgeu, 0x5433916d),
    (Lb, 0x41d4d45e),
    (Lbu, 0xddefb3d4),
    (Lh, 0x5455045c),
    (Lhu, 0x49770737),
    (Lw, 0x68b40e94),
    (Sb, 0x3afe6b0e),
    (Sh, 0x66cec421),
    (Sw, 0x4c8fc81c),
];

/// Reads the operands x5 and x6, and writes x7.
struct Cases {
    program: Program,
    results: u32,
}

impl Cases {
    fn new() -> Cases {
        let mut program = Program::default();
        program.load(8, DATA).load(9, RESULTS);
        Cases { program, results: 0 }
    }

    fn operand(&mut self, register: u8, corner: usize) -> &mut Program {
        self.program.push(word(Lw, register, 8, 0, corner as i32 * 4))
    }

    fn result(&mut self, register: u8) {
        if self.results == 2044 {
            self.program.push(word(Addi, 9, 9, 0, 2044));
            self.results = 0;
        }
        self.program.push(word(Sw, 0, 9, register, self.results as i32));
        self.results += 4;
    }
}

/// The program of an instruction.
fn corner_program(operation: Operation) -> RandomProgram {
    let mut cases = Cases::new();
    let pairs = (0..CORNERS.len()).flat_map(|a| (0..CORNERS.len()).map(move |b| (a, b)));
    if ARITHMETIC.contains(&operation) {
        for (a, b) in pairs {
            cases.operand(5, a);
            cases.operand(6, b).push(word(operation, 7, 5, 6, 0));
            cases.result(7);
        }
    } else if BRANCHES.contains(&operation) {
        for (a, b) in pairs {
            cases.operand(5, a);
            cases
                .operand(6, b)
                .push(word(Addi, 7, 0, 0, 1))
                .push(word(operation, 0, 5, 6, 8))
                .push(word(Addi, 7, 0, 0, 2));
            cases.result(7);
        }
    } else if IMMEDIATE.contains(&operation) || SHIFTS.contains(&operation) {
        let constants = if SHIFTS.contains(&operation) { &AMOUNTS[..] } else { &IMMEDIATES[..] };
        for (a, constant) in (0..CORNERS.len()).flat_map(|a| constants.iter().map(move |constant| (a, *constant))) {
            cases.operand(5, a).push(word(operation, 7, 5, 0, constant));
            cases.result(7);
        }
    } else {
        other_cases(&mut cases, operation);
    }
    cases.program.push(word(if operation == Ebreak { Ebreak } else { Ecall }, 0, 0, 0, 0));
    let mut data: Vec<u8> = CORNERS.iter().flat_map(|corner| corner.to_le_bytes()).collect();
    data.resize(DATA_BYTES as usize, 0xa5);
    RandomProgram { code: cases.program.image(), data, x: [0; 32], patched: Vec::new() }
}

fn other_cases(cases: &mut Cases, operation: Operation) {
    if let Some((_, bytes)) = LOADS.iter().find(|(load, _)| *load == operation) {
        for at in (0..CORNERS.len() as i32 * 4).step_by(*bytes as usize) {
            cases.program.push(word(operation, 7, 8, 0, at));
            cases.result(7);
        }
    } else if let Some((_, bytes)) = STORES.iter().find(|(store, _)| *store == operation) {
        for corner in 0..CORNERS.len() {
            let into = 4 * corner as i32;
            for at in (into..into + 4).step_by(*bytes as usize) {
                cases.operand(5, (corner + at as usize) % CORNERS.len()).push(word(operation, 0, 9, 5, at));
            }
        }
    }
    match operation {
        Lui | Auipc => {
            for upper in UPPER {
                cases.program.push(word(operation, 7, 0, 0, upper as i32));
                cases.result(7);
            }
        }
        // On over one instruction, back over one, and as far as it must be; the link is what is kept.
        Jal => {
            for skipped in [1, 2, 100] {
                cases.program.push(word(Jal, 7, 0, 0, 4 + 4 * skipped));
                for _ in 0..skipped {
                    cases.program.push(0);
                }
                cases.result(7);
            }
            cases.program.push(word(Jal, 0, 0, 0, 12)).push(word(Addi, 6, 0, 0, 5)).push(word(Jal, 0, 0, 0, 8));
            cases.program.push(word(Jal, 7, 0, 0, -8));
            cases.result(6);
        }
        // The target's lowest bit counts for nothing, and the register may be the one that is written.
        Jalr => {
            for (rd, distance) in [(7, 12), (7, 13), (5, 12), (0, 12)] {
                cases.program.push(word(Auipc, 5, 0, 0, 0)).push(word(Jalr, rd, 5, 0, distance)).push(0);
                cases.result(5);
                cases.result(7);
            }
        }
        Fence | FenceI => {
            for immediate in [0, 0xff, -1] {
                cases.program.push(word(operation, 7, 5, 0, immediate));
                cases.result(7);
            }
        }
        _ => {}
    }
}

/// Every instruction of rv32im and `fence.i`, with its program.
pub fn corner_programs() -> Vec<(Operation, RandomProgram)> {
    let mut operations = vec![Lui, Auipc, Jal, Jalr, Fence, FenceI, Ecall, Ebreak];
    operations.extend(ARITHMETIC);
    operations.extend(IMMEDIATE);
    operations.extend(SHIFTS);
    operations.extend(BRANCHES);
    operations.extend(LOADS.iter().map(|(load, _)| load));
    operations.extend(STORES.iter().map(|(store, _)| store));
    operations.into_iter().map(|operation| (operation, corner_program(operation))).collect()
}

/// What a program's results come to.
pub fn results_sum(memory: &[u8]) -> u32 {
    crc32fast::hash(&memory[RESULTS as usize..(DATA + DATA_BYTES) as usize])
}

#[test]
fn every_instruction_gives_at_its_corners_what_qemu_gave() {
    let programs = corner_programs();
    assert_eq!(programs.len(), 49, "48 of rv32im, and fence.i");
    for (operation, program) in programs {
        let outcome = qemu::ours(&program).unwrap_or_else(|| panic!("{operation:?} has no end"));
        let sum = results_sum(&outcome.memory);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            println!("    ({operation:?}, {sum:#010x}),");
            continue;
        }
        let expected = EXPECTED.iter().find(|(expected, _)| *expected == operation);
        assert_eq!(Some(sum), expected.map(|(_, sum)| *sum), "{operation:?}");
    }
}

#[test]
fn the_results_of_the_corners_are_plausible() {
    // Independent of any oracle: a few results that the specification spells out.
    let at = |operation, a: u32, b: u32| {
        let index = |corner| CORNERS.iter().position(|other| *other == corner).unwrap() as u32;
        let outcome = qemu::ours(&corner_program(operation)).unwrap();
        let case = (index(a) * 15 + index(b)) * 4;
        u32::from_le_bytes(outcome.memory[(RESULTS + case) as usize..][..4].try_into().unwrap())
    };
    assert_eq!(at(Div, 0x8000_0000, u32::MAX), 0x8000_0000);
    assert_eq!(at(Rem, 0x8000_0000, u32::MAX), 0);
    assert_eq!(at(Div, 32, 0), u32::MAX);
    assert_eq!(at(Divu, 32, 0), u32::MAX);
    assert_eq!(at(Rem, 32, 0), 32);
    assert_eq!(at(Remu, 32, 0), 32);
    assert_eq!(at(Mulhsu, u32::MAX, u32::MAX), u32::MAX);
    assert_eq!(at(Mulhu, u32::MAX, u32::MAX), u32::MAX - 1);
    assert_eq!(at(Mulh, u32::MAX, u32::MAX), 0);
}

#[test]
fn a_program_of_illegal_words_traps_at_each() {
    for illegal in [0, u32::MAX, 0x0000_0001, 0x0200_1013, 0x4000_1033, 0x0000_0073 | 1 << 7, 0x1050_0073, 0x0000_2063]
    {
        let mut device = Device::new(DeviceConfig::default());
        device.load(&illegal.to_le_bytes()).unwrap();
        device.reset(1);
        let Stop::Halted(trap) = device.run(&mut Host::new(), 100) else { panic!("{illegal:#x} is legal") };
        assert_eq!((trap.pc, trap.value), (0, illegal));
    }
}
