//! clang, as the programs and what is asked about them are compiled.

use std::env;
use std::path::Path;
use std::process::Command;

/// The compiler, and what is the same in each of its runs.
pub struct Compiler {
    clang: String,
    include: String,
    arch: String,
}

impl Compiler {
    /// As cargo and the environment choose.
    pub fn chosen() -> Self {
        let target = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target architecture");
        let arch = match target.as_str() {
            "x86_64" => "x86",
            "aarch64" => "arm64",
            other => other,
        };
        Compiler {
            clang: env::var("CLANG").unwrap_or_else(|_| "clang".into()),
            include: env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells where its headers are"),
            arch: arch.to_owned(),
        }
    }

    /// Compiles a source; panics with the compiler's words where it does not compile.
    pub fn run(&self, options: &[&str], source: &Path, into: &Path) {
        let status = Command::new(&self.clang)
            .args(["-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-Wno-unused-function"])
            .arg(format!("-D__TARGET_ARCH_{}", self.arch))
            // The debug information would carry the path of the build directory.
            .arg(format!("-ffile-prefix-map={}=.", env::current_dir().expect("a build has a directory").display()))
            .arg("-I")
            .arg(&self.include)
            .args(options)
            .arg(source)
            .arg("-o")
            .arg(into)
            .status();
        let (clang, source) = (&self.clang, source.display());
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("{clang} could not compile {source} ({status}); its messages are above"),
            Err(error) => panic!("cannot run {clang} ({error}); `make setup` installs it, or set CLANG to one"),
        }
    }
}
