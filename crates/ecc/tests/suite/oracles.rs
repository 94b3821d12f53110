//! Programs that somebody else wrote: gf256, Intel ISA-L, and the Python library reedsolo.

use super::distance::sets;
use super::{Random, paths};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use surefoot_ecc::{Batch, Code, Decoder, LocationCheck, Mode, Outcome};
use surefoot_testkit::not_run::not_run;

/// The rs macro of gf256 makes a module of this name.
#[gf256::rs::rs(gf = gf256::gf256, u = u8, block = 36, data = 32)]
mod rs36w32 {}

fn random_shards(count: usize, length: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.bytes(length)).collect()
}

fn encoded(batch: Batch, mut shards: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let (data, parity) = shards.split_at_mut(16);
    batch.encode(data, parity).unwrap();
    shards
}

#[test]
fn gf256_computes_the_same_p_q_r_on_every_path() {
    use gf256::raid::{raid6, raid7};
    for path in paths() {
        for length in [1, 64, 1000] {
            let data = random_shards(19, length, 41);
            let [mut p, mut q, mut r] = [vec![0; length], vec![0; length], vec![0; length]];
            raid7::format(&data[..16], &mut p, &mut q, &mut r);
            let ours = encoded(Batch::with_path(Code::Rs19_16, path).unwrap(), data.clone());
            assert_eq!(ours[16..], [p.clone(), q.clone(), r]);
            let mut pair = vec![vec![0; length]; 2];
            Batch::with_path(Code::Rs18_16, path).unwrap().encode(&data[..16], &mut pair).unwrap();
            raid6::format(&data[..16], &mut p, &mut q);
            assert_eq!(pair, [p, q]);
        }
    }
}

#[test]
fn gf256_repairs_the_same_shards() {
    let batch = Batch::new(Code::Rs19_16);
    let sound = encoded(batch, random_shards(19, 100, 42));
    for bad in sets(19, 3) {
        let mut damaged = sound.clone();
        bad.iter().for_each(|&shard| damaged[shard].fill(0x3C));
        let mut its = damaged.clone();
        let (data, parity) = its.split_at_mut(16);
        let [p, q, r] = parity else { panic!("there are three") };
        gf256::raid::raid7::repair(data, p, q, r, &bad).unwrap();
        assert!(batch.repair(&mut damaged, &bad, Mode::Detect).unwrap().detected == 0);
        assert!(damaged == its, "{bad:?}");
        assert!(damaged == sound, "{bad:?}");
    }
}

#[test]
fn gf256_encodes_and_corrects_rs36_32_alike() {
    let mut random = Random::new(43);
    let code = Code::Rs36_32;
    let two = Decoder { mode: Mode::CorrectTwo, location_check: LocationCheck::On };
    for round in 0..2000 {
        let mut word = random.bytes(36);
        let mut its = word.clone();
        code.encode(&mut word).unwrap();
        rs36w32::encode(&mut its);
        assert_eq!(word, its);
        let mut damaged = word.clone();
        (0..round % 3).for_each(|_| damaged[random.below(36)] ^= random.nonzero());
        let mut its = damaged.clone();
        rs36w32::correct_errors(&mut its).unwrap();
        assert_ne!(code.decode(&mut damaged, two), Ok(Outcome::Detected));
        assert_eq!(damaged, its);
        assert_eq!(damaged, word);
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn isa_l_computes_the_same_p_q_r_on_every_path() {
    let test = "isa_l_computes_the_same_p_q_r_on_every_path";
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("isa_l");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(fixture("isa_l.c")).arg("-lisal");
    let compiled = match compiler.output() {
        Ok(output) => output,
        Err(error) => return not_run(test, &format!("cc cannot be run: {error}")),
    };
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    if !compiled.status.success() && (complaints.contains("isa-l/erasure_code.h") || complaints.contains("lisal")) {
        return not_run(test, "ISA-L is not installed; install libisal-dev");
    }
    assert!(compiled.status.success(), "{complaints}");
    for length in [1usize, 31, 64, 1000, 5000] {
        let data = random_shards(19, length, 44);
        let mut running = Command::new(&program)
            .arg(length.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        running.stdin.take().unwrap().write_all(&data[..16].concat()).unwrap();
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success());
        for path in paths() {
            let ours = encoded(Batch::with_path(Code::Rs19_16, path).unwrap(), data.clone());
            assert!(ours[16..].concat() == output.stdout, "{path}, {length} bytes");
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Encoding, syndromes and the correction of up to two errors, against recorded output of reedsolo.
#[test]
fn reedsolo_encodes_and_corrects_rs36_32_alike() {
    let code = Code::Rs36_32;
    let recorded = std::fs::read_to_string(fixture("reedsolo_words.txt")).unwrap();
    let two = Decoder { mode: Mode::CorrectTwo, location_check: LocationCheck::On };
    let mut corrected_words = 0;
    for line in recorded.lines() {
        let [word, damaged, syndromes, corrected] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("four fields: {line}")
        };
        let (word, mut damaged) = (bytes(word), bytes(damaged));
        let mut ours = word.clone();
        ours[32..].fill(0);
        code.encode(&mut ours).unwrap();
        assert_eq!(ours, word);
        assert_eq!(code.syndromes(&damaged).unwrap()[..], bytes(syndromes));
        let outcome = code.decode(&mut damaged, two).unwrap();
        if corrected == "-" {
            assert_eq!(outcome, Outcome::Detected, "{line}");
        } else {
            assert_eq!(damaged, bytes(corrected), "{line}");
            corrected_words += 1;
        }
    }
    assert!(recorded.lines().count() == 200 && corrected_words > 100);
}

#[test]
fn the_recorded_words_are_what_reedsolo_prints() {
    let test = "the_recorded_words_are_what_reedsolo_prints";
    // The set-up installs it in an environment of its own.
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/python/bin/python3");
    let imports = |python: &PathBuf| {
        let output = Command::new(python).args(["-c", "import reedsolo"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3".into(), installed].into_iter().find(imports) else {
        return not_run(test, "no Python can import reedsolo; `make setup` installs it from PyPI");
    };
    let output = Command::new(python).arg("-B").arg(fixture("reedsolo_words.py")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        std::fs::read_to_string(fixture("reedsolo_words.txt")).unwrap()
    );
}

/// Vectors that ISA-L, gf256 and a program of their own agreed upon before this crate was written.
#[test]
fn known_vectors_on_every_path() {
    let data: Vec<[u8; 1]> = (1..=16).map(|byte| [byte]).collect();
    for path in paths() {
        let mut parity = [[0]; 3];
        Batch::with_path(Code::Rs19_16, path).unwrap().encode(&data, &mut parity).unwrap();
        assert_eq!(parity, [[0x10], [0xe9], [0x73]]);
    }
}
