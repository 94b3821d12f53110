//! Copies the sources and tests of `crates/nic` with every fault of `src/tests/list.rs` planted, each behind a switch of its own.
//!
//! A fault whose text occurs elsewhere, twice or not at all fails the build: a change of the sources that takes it away is noticed.

use std::path::{Path, PathBuf};

#[path = "src/tests/list.rs"]
#[allow(dead_code, reason = "the build needs less of it than the tests")]
mod list;

use list::{MUTANTS, Part};

type Failure = Box<dyn std::error::Error>;

/// Tests of `crates/nic` that find faults; those of the processor and of the protocol's model are about neither library nor daemon.
const TESTS: [&str; 8] =
    ["campaign", "crash_points", "hostile", "measures", "sender", "storms", "world", "wrong_programs"];

/// `xtask` counts tests whose mark begins so with the one that starts them.
const MARK: &str = "#[test]\n#[ignore = \"runs in a child process, with a planted fault\"]\n";

fn main() -> Result<(), Failure> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for folder in ["crates/nic/src", "crates/nic/tests", "firmware/ncp"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-changed=src/tests/list.rs");
    for folder in ["firmware/ncp/built", "firmware/ncp/include"] {
        copy(&root, &out, Path::new(folder), &|_, text| Ok(text))?;
    }
    copy(&root, &out, Path::new("crates/nic/src"), &planted)?;
    check_firmware(&root)?;
    let mut lib = String::new();
    for line in std::fs::read_to_string(root.join("crates/nic/src/lib.rs"))?.lines() {
        let Some(module) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) else { continue };
        let folder = out.join("crates/nic/src");
        let file = [folder.join(module).join("mod.rs"), folder.join(format!("{module}.rs"))];
        let file = file.iter().find(|file| file.exists()).ok_or(format!("no source of {module}"))?;
        lib += &format!("#[path = {file:?}]\npub mod {module};\n");
    }
    for test in TESTS {
        let text = std::fs::read_to_string(root.join(format!("crates/nic/tests/{test}.rs")))?;
        let file = out.join(format!("{test}.rs"));
        std::fs::write(&file, text.replace("#[test]\n", MARK))?;
        lib += &format!("#[path = {file:?}]\nmod {test}_tests;\n");
    }
    std::fs::write(out.join("nic.rs"), lib)?;
    Ok(())
}

type Change<'a> = &'a dyn Fn(&str, String) -> Result<String, Failure>;

fn copy(root: &Path, out: &Path, folder: &Path, change: Change<'_>) -> Result<(), Failure> {
    std::fs::create_dir_all(out.join(folder))?;
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let below = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(root, out, &below, change)?;
            continue;
        }
        let bytes = std::fs::read(entry.path())?;
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => change(below.to_str().ok_or("a name that is not UTF-8")?, text)?.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        std::fs::write(out.join(below), bytes)?;
    }
    Ok(())
}

/// A source with its faults, and with its tests marked.
fn planted(file: &str, original: String) -> Result<String, Failure> {
    let mut text = original.clone();
    for (number, mutant) in MUTANTS.iter().enumerate().filter(|(_, mutant)| mutant.part != Part::Firmware) {
        if format!("crates/nic/src/{}", mutant.file) == file {
            once(&original, mutant.name, mutant.from)?;
            let to = mutant.to.replace("PLANTED", &format!("crate::mutant::is({number})"));
            text = text.replace(once(&text, mutant.name, mutant.from)?, &to);
        }
    }
    if file == "crates/nic/src/firmware.rs" {
        let from = "Firmware::read(build.elf()).unwrap_or(";
        let to = "Firmware::read(&crate::mutant::elf(build).unwrap_or(build.elf().to_vec())).unwrap_or(";
        text = text.replace(once(&original, "the control program", from)?, to);
    }
    Ok(text.replace("    #[test]\n", &format!("    {MARK}")))
}

/// Those of the control program are compiled when they are tried.
fn check_firmware(root: &Path) -> Result<(), Failure> {
    for mutant in MUTANTS.iter().filter(|mutant| mutant.part == Part::Firmware) {
        let text = std::fs::read_to_string(root.join("firmware/ncp/src").join(mutant.file))?;
        once(&text, mutant.name, mutant.from)?;
    }
    Ok(())
}

fn once<'a>(text: &str, name: &str, from: &'a str) -> Result<&'a str, Failure> {
    match text.matches(from).count() {
        1 => Ok(from),
        count => Err(format!("mutant {name}: its text is {count} times in its file, not once: {from}").into()),
    }
}
