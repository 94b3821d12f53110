//! The generated Verilog, simulated by Verilator, against the scalar reference: bit for bit.

use super::Random;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use surefoot_ecc::field::{ORDER, multiply, power_of_alpha};
use surefoot_ecc::hardware::{Unit, module_name, position_bits, prefix, verilog};
use surefoot_ecc::{Code, Decoder, Outcome, SYMBOLS_MAX, SYNDROMES_MAX};
use surefoot_testkit::not_run::not_run;

const RANDOM_WORDS: usize = 20_000;
const DOUBLE_ERRORS: usize = 20_000;
const RANDOM_SYNDROMES: usize = 20_000;

/// One question to the hardware: decode a word, or correct it by syndromes that are given.
struct Question {
    code: Code,
    word: Vec<u8>,
    given: Option<[u8; SYNDROMES_MAX]>,
}

/// What comes back.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    corrected: Vec<u8>,
    syndromes: [u8; SYNDROMES_MAX],
    not_a_codeword: bool,
    error: bool,
    detected: bool,
    position: usize,
}

impl Question {
    fn bytes(&self) -> [u8; 2 + SYMBOLS_MAX + SYNDROMES_MAX] {
        let mut bytes = [0; 2 + SYMBOLS_MAX + SYNDROMES_MAX];
        bytes[0] = Code::ALL.iter().position(|&code| code == self.code).unwrap() as u8;
        bytes[1] = u8::from(self.given.is_some());
        bytes[2..2 + self.word.len()].copy_from_slice(&self.word);
        bytes[2 + SYMBOLS_MAX..].copy_from_slice(&self.given.unwrap_or_default());
        bytes
    }

    /// What the software says.
    fn answer(&self) -> Answer {
        let mut corrected = self.word.clone();
        let syndromes = self.code.syndromes(&self.word).unwrap();
        let outcome = match self.given {
            None => self.code.decode(&mut corrected, Decoder::default()).unwrap(),
            Some(given) => self.code.locate(given, Decoder::default()).unwrap(),
        };
        let mut position = 0;
        if let Outcome::Corrected(error) = outcome {
            position = error.position;
            corrected[position] = self.word[position] ^ error.value;
        }
        Answer {
            corrected,
            syndromes,
            not_a_codeword: syndromes != [0; SYNDROMES_MAX],
            error: outcome != Outcome::Clean,
            detected: outcome == Outcome::Detected,
            position,
        }
    }
}

impl Answer {
    fn of(code: Code, bytes: &[u8]) -> Answer {
        let (word, rest) = bytes.split_at(SYMBOLS_MAX);
        let (syndromes, rest) = rest.split_at(SYNDROMES_MAX);
        assert!(word[code.n()..].iter().all(|&byte| byte == 0) && rest[0] < 8);
        Answer {
            corrected: word[..code.n()].to_vec(),
            syndromes: syndromes.try_into().unwrap(),
            not_a_codeword: rest[0] & 1 != 0,
            error: rest[0] & 2 != 0,
            detected: rest[0] & 4 != 0,
            position: usize::from(rest[1]),
        }
    }
}

/// One module around the units of all codes, so that there is one simulation to build.
fn top() -> String {
    let mut wires = String::new();
    let mut cases = String::new();
    for (index, code) in Code::ALL.into_iter().enumerate() {
        let (prefix, word, syndrome) = (prefix(code), 8 * code.n() - 1, 8 * code.parity() - 1);
        let place = position_bits(code) - 1;
        wires += &format!("wire [{syndrome}:0] {prefix}_s; wire {prefix}_bad;\n");
        for (unit, letter, input) in
            [(Unit::Decode, "d", String::new()), (Unit::Correct, "c", format!(".syndrome(given[{syndrome}:0]), "))]
        {
            let name = format!("{prefix}_{letter}");
            wires += &format!("wire [{word}:0] {name}_word; wire [{place}:0] {name}_place; wire [1:0] {name}_flags;\n");
            wires += &format!(
                "{} {name} (.word(word[{word}:0]), {input}.corrected({name}_word), .error({name}_flags[0]), \
                 .detected({name}_flags[1]), .position({name}_place));\n",
                module_name(code, unit)
            );
        }
        let (unit, check) = (module_name(code, Unit::Syndrome), module_name(code, Unit::Check));
        wires += &format!("{unit} {prefix}_su (.word(word[{word}:0]), .syndrome({prefix}_s));\n");
        wires += &format!("{check} {prefix}_cu (.word(word[{word}:0]), .error({prefix}_bad));\n");
        cases += &format!("{index}: begin corrected[{word}:0] = use_given ? {prefix}_c_word : {prefix}_d_word;\n");
        cases += &format!("{{detected, error}} = use_given ? {prefix}_c_flags : {prefix}_d_flags;\n");
        cases += &format!("position[{place}:0] = use_given ? {prefix}_c_place : {prefix}_d_place;\n");
        cases += &format!("syndrome[{syndrome}:0] = {prefix}_s; not_a_codeword = {prefix}_bad; end\n");
    }
    format!(
        "module hardware (input wire [1:0] code, input wire use_given, input wire [287:0] word,\n\
         input wire [31:0] given, output reg [287:0] corrected, output reg [31:0] syndrome,\n\
         output reg not_a_codeword, output reg error, output reg detected, output reg [5:0] position);\n{wires}\
         always @* begin\ncorrected = 0; syndrome = 0; not_a_codeword = 0; error = 0; detected = 0; position = 0;\n\
         case (code)\n{cases}default: ;\nendcase\nend\nendmodule\n"
    )
}

fn questions(code: Code, random: &mut Random) -> Vec<Question> {
    let n = code.n();
    let mut all = Vec::new();
    let codeword = |random: &mut Random| {
        let mut word = random.bytes(n);
        code.encode(&mut word).unwrap();
        word
    };
    let decode = |word| Question { code, word, given: None };
    for _ in 0..RANDOM_WORDS {
        all.push(decode(random.bytes(n)));
    }
    // Every single error, at every symbol, and none.
    for position in 0..n {
        let sound = codeword(random);
        for value in 0..=255 {
            let mut word = sound.clone();
            word[position] ^= value;
            all.push(decode(word));
        }
    }
    for _ in 0..DOUBLE_ERRORS {
        let mut word = codeword(random);
        let first = random.below(n);
        let second = (first + 1 + random.below(n - 1)) % n;
        word[first] ^= random.nonzero();
        word[second] ^= random.nonzero();
        all.push(decode(word));
    }
    for given in syndromes(code, random) {
        all.push(Question { code, word: random.bytes(n), given: Some(given) });
    }
    all
}

/// Syndromes whatever the word: all there are for RS(18,16); otherwise every locator, whether or not the code uses it,
/// and random ones of which some are 0.
fn syndromes(code: Code, random: &mut Random) -> Vec<[u8; SYNDROMES_MAX]> {
    let parity = code.parity();
    if parity == 2 {
        return (0..=u16::MAX).map(|both| [both as u8, (both >> 8) as u8, 0, 0]).collect();
    }
    let mut all = Vec::new();
    for exponent in 0..ORDER {
        for value in [1, 2, 0x80, 0x57, 0xFF] {
            let mut given = [0; SYNDROMES_MAX];
            for (row, syndrome) in given[..parity].iter_mut().enumerate() {
                *syndrome = multiply(value, power_of_alpha(row * exponent));
            }
            all.push(given);
        }
    }
    for _ in 0..RANDOM_SYNDROMES {
        let mut given = [0; SYNDROMES_MAX];
        let zeros = random.below(16);
        for (row, syndrome) in given[..parity].iter_mut().enumerate() {
            *syndrome = if zeros >> row & 1 == 1 { 0 } else { random.nonzero() };
        }
        all.push(given);
    }
    all
}

/// Builds the simulation; `Err` is why it cannot be built on this machine.
fn build(directory: &Path) -> Result<(), String> {
    let mut sources = vec![("hardware.v".to_owned(), top())];
    sources.extend(Code::ALL.map(|code| (format!("{}.v", prefix(code)), verilog(code))));
    for (name, text) in &sources {
        fs::write(directory.join(name), text).unwrap();
    }
    for (tool, package) in [("verilator", "verilator"), ("make", "make"), ("c++", "g++")] {
        let probed = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        probed.map_err(|error| format!("{tool} cannot be run ({error}); install {package}"))?;
    }
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hardware.cpp");
    let mut verilator = Command::new("verilator");
    verilator.current_dir(directory).args(["--cc", "--exe", "--build", "-j", "2", "--top-module", "hardware"]);
    verilator.args(["-Wall", "-Wno-DECLFILENAME", "--x-assign", "fast", "--Mdir", "built"]);
    // The compiler takes far longer than the simulation, which asks each question once.
    verilator.args(["-MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0"]);
    verilator.arg(driver).args(sources.iter().map(|(name, _)| name)).env_remove("MAKEFLAGS");
    let built = verilator.output().unwrap();
    let said = [built.stdout, built.stderr].concat();
    assert!(built.status.success(), "verilator: {}", String::from_utf8_lossy(&said));
    Ok(())
}

#[test]
fn simulated_decoders_answer_as_the_reference_does() {
    let test = "simulated_decoders_answer_as_the_reference_does";
    let directory = tempfile::tempdir().unwrap();
    if let Err(why) = build(directory.path()) {
        return not_run(test, &why);
    }
    let mut random = Random::new(0x5EED);
    let questions: Vec<Question> = Code::ALL.into_iter().flat_map(|code| questions(code, &mut random)).collect();
    let input: Vec<u8> = questions.iter().flat_map(Question::bytes).collect();
    fs::write(directory.path().join("questions"), input).unwrap();
    let simulation = Command::new(directory.path().join("built/Vhardware"))
        .stdin(fs::File::open(directory.path().join("questions")).unwrap())
        .stdout(fs::File::create(directory.path().join("answers")).unwrap())
        .status();
    assert!(simulation.unwrap().success());
    let answers = fs::read(directory.path().join("answers")).unwrap();
    let record = SYMBOLS_MAX + SYNDROMES_MAX + 2;
    assert_eq!(answers.len(), questions.len() * record);
    let mut counts = [[0; 3]; 3];
    for (question, bytes) in questions.iter().zip(answers.chunks(record)) {
        let (code, word, given) = (question.code, &question.word, question.given);
        let expected = question.answer();
        assert_eq!(Answer::of(code, bytes), expected, "{code} word {word:02x?} given {given:02x?}");
        counts[code as usize][usize::from(expected.error) + usize::from(expected.detected)] += 1;
    }
    // Each outcome must have been asked for often, or the comparison has shown nothing.
    for (code, [clean, corrected, detected]) in Code::ALL.iter().zip(counts) {
        assert!(clean >= code.n() && corrected >= 255 * code.n() && detected >= 10_000, "{code}: {counts:?}");
    }
}

#[test]
fn yosys_maps_every_unit_to_gates_without_memory() {
    let test = "yosys_maps_every_unit_to_gates_without_memory";
    let directory = tempfile::tempdir().unwrap();
    for code in Code::ALL {
        let name = format!("{}.v", prefix(code));
        fs::write(directory.path().join(&name), verilog(code)).unwrap();
        let top = module_name(code, Unit::Decode);
        // check -assert ends with an error where a wire has no driver, two, or drives itself.
        let script = format!(
            "read_verilog {name}; hierarchy -check -top {top}; check -assert; synth -flatten -noabc -top {top}; \
             check -assert; select -assert-none t:*DFF* t:*LATCH* t:$mem*; select -assert-any t:$_XOR_"
        );
        let ran = Command::new("yosys").current_dir(directory.path()).args(["-q", "-p", &script]).output();
        let output = match ran {
            Ok(output) => output,
            Err(error) => return not_run(test, &format!("yosys cannot be run ({error}); install yosys")),
        };
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{code}: {}", String::from_utf8_lossy(&said));
    }
}
