//! Compiles programs against the library that cargo has just built.

use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_testkit::not_run::not_run;

/// All that a compiler may complain about is an error: people build with such options.
const WARNINGS: [&str; 5] = ["-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"];

/// The folder of the bindings.
pub fn bindings() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where the libraries are: beside this test.
pub fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

pub fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether the programs are there; if not, says that the test does not run.
pub fn can_run(test: &str, programs: &[&str], remedy: &str) -> bool {
    match programs.iter().find(|program| !exists(program)) {
        None => true,
        Some(missing) => {
            not_run(test, &format!("there is no {missing}; {remedy}"));
            false
        }
    }
}

/// Which of the two libraries a program is linked with.
#[derive(Clone, Copy, PartialEq)]
pub enum Linked {
    Static,
    Shared,
}

/// Compiles a source of the bindings, with all warnings, and returns the program.
pub fn compile(compiler: &str, options: &[&str], source: &str, linked: Linked, into: &Path) -> PathBuf {
    let source = bindings().join(source);
    let mut name = source.file_stem().unwrap().to_owned();
    name.push(format!("-{}{}", compiler.replace('+', "p"), options.len()));
    let program = into.join(name);
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(options).arg("-I").arg(bindings()).arg("-o").arg(&program).arg(source);
    // The language that an option named is not that of the library.
    command.args(["-x", "none"]);
    match linked {
        Linked::Static => command.arg(libraries().join("libsurefoot.a")).args(["-lpthread", "-ldl"]),
        Linked::Shared => {
            let path = format!("-Wl,-rpath,{}", libraries().display());
            command.arg(libraries().join("libsurefoot.so")).arg(path)
        }
    };
    let output = command.arg("-lm").output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
fn everything_compiles_without_a_warning_as_c_and_cpp() {
    let home = tempfile::tempdir().unwrap();
    let mut used = 0;
    for (compiler, options) in [
        ("gcc", ["-std=c99", "-D_GNU_SOURCE"].as_slice()),
        ("clang", &["-std=c11", "-D_GNU_SOURCE", "-Wpedantic"]),
        ("g++", &["-x", "c++", "-std=c++17"]),
    ] {
        if exists(compiler) {
            compile(compiler, options, "examples/checkpoint.c", Linked::Shared, home.path());
            used += 1;
        }
    }
    if used == 0 {
        not_run("everything_compiles_without_a_warning_as_c_and_cpp", "there is no C compiler; install gcc or clang");
    }
}
