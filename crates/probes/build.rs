//! Compiles the eBPF programs with clang into objects that the library embeds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SOURCES: [&str; 3] = ["ledger", "ledger_plain", "raisers"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let include = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target architecture");
    let arch = match target.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => other,
    };
    for source in SOURCES {
        compile(source, &include, arch, &out.join(format!("{source}.bpf.o")));
    }
}

fn compile(source: &str, include: &str, arch: &str, object: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let status = Command::new(&clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-Wno-unused-function"])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        // The debug information would carry the path of the build directory.
        .arg(format!("-ffile-prefix-map={}=.", env::current_dir().expect("a build has a directory").display()))
        .arg("-I")
        .arg(include)
        .arg("-c")
        .arg(format!("bpf/{source}.bpf.c"))
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile bpf/{source}.bpf.c ({status}); its messages are above"),
        Err(error) => panic!("cannot run {clang} ({error}); `make setup` installs it, or set CLANG to one"),
    }
    // Line information is not needed at run time; BTF is, and stays.
    let strip = env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".into());
    let _ = Command::new(strip).arg("-g").arg(object).status();
    assert!(fs::metadata(object).is_ok_and(|file| file.len() > 0), "{} is empty", object.display());
}
