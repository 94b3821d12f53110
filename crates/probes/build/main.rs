//! Compiles the eBPF programs with clang into objects that the library embeds, and takes the numbers that they share
//! with user space to Rust.

mod compiler;
mod numbers;

use compiler::Compiler;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SOURCES: [&str; 6] = ["ledger", "ledger_plain", "raisers", "planted", "freeze", "task_numbers"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = Compiler::chosen();
    numbers::generate(&compiler, &out);
    for source in SOURCES {
        let object = out.join(format!("{source}.bpf.o"));
        compiler.run(&["-g", "-c"], Path::new(&format!("bpf/{source}.bpf.c")), &object);
        strip(&object);
    }
}

/// Line information is not needed at run time; BTF is, and stays.
fn strip(object: &Path) {
    let strip = env::var("LLVM_STRIP").unwrap_or_else(|_| "llvm-strip".into());
    let _ = Command::new(strip).arg("-g").arg(object).status();
    assert!(fs::metadata(object).is_ok_and(|file| file.len() > 0), "{} is empty", object.display());
}
