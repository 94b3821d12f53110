//! `make install` and `make uninstall`: the command and its units where systemd looks for them, and nothing left behind.

use crate::checkpoint_bench::library;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use surefoot_e2e::command::binary;
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_testkit::not_run::not_run;

fn make(target: &str, prefix: &str, root: &Path, built: &Path) -> Output {
    let mut command = Command::new("make");
    command.args(["--no-print-directory", "-C", concat!(env!("CARGO_MANIFEST_DIR"), "/.."), target]);
    command.arg(format!("PREFIX={prefix}")).arg(format!("DESTDIR={}", root.display()));
    command.arg(format!("BUILT={}", built.display()));
    for name in ["MAKEFLAGS", "MFLAGS", "LIBDIR"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

/// A folder with what `make install` would have built.
fn built(home: &Path) -> PathBuf {
    let folder = home.join("built");
    fs::create_dir(&folder).unwrap();
    for (from, name) in [
        (binary().to_owned(), "surefoot"),
        (library().to_owned(), "libsurefoot.so"),
        (library().with_extension("a"), "libsurefoot.a"),
    ] {
        symlink(from, folder.join(name)).unwrap();
    }
    folder
}

fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

fn has_debug_data(program: &Path) -> bool {
    let sections = Command::new("objdump").arg("-h").arg(program).output().unwrap();
    assert!(sections.status.success(), "{}", String::from_utf8_lossy(&sections.stderr));
    String::from_utf8_lossy(&sections.stdout).contains(".debug_info")
}

#[test]
fn the_command_is_where_its_unit_expects_it_and_goes_again() {
    let test = "the_command_is_where_its_unit_expects_it_and_goes_again";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    if let Some(missing) = ["make", "objcopy", "objdump"].into_iter().find(|program| !has_program(program)) {
        return not_run(test, &format!("there is no {missing}; install make and binutils"));
    }
    let home = tempfile::tempdir().unwrap();
    let built = built(home.path());
    assert!(has_debug_data(binary()), "what make takes away is not there");
    for prefix in ["/usr", "/opt/surefoot"] {
        let root = home.path().join(prefix.replace('/', "_"));
        let output = make("install", prefix, &root, &built);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let below = root.join(&prefix[1..]);
        let unit = fs::read_to_string(below.join("lib/systemd/system/surefoot.service")).unwrap();
        let expected = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")?.split(' ').next()).unwrap();
        let command = root.join(&expected[1..]);
        assert_eq!(command, below.join("bin/surefoot"), "the unit of {prefix} starts {expected}");
        let found = fs::metadata(&command).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o755);
        assert!(!has_debug_data(&command), "{} of {} bytes", found.len(), fs::metadata(binary()).unwrap().len());
        let said = Command::new(&command).arg("--version").output().unwrap();
        assert!(said.status.success() && said.stdout.starts_with(b"surefoot "), "{said:?}");
        for path in [
            "lib/systemd/system/surefoot-drives.timer",
            "share/man/man1/surefoot-stall-report.1",
            "share/bash-completion/completions/surefoot",
            "share/zsh/site-functions/_surefoot",
            "share/fish/vendor_completions.d/surefoot.fish",
            "share/doc/surefoot/guide/lost-time.md",
            "share/doc/surefoot/LICENSE-MIT",
        ] {
            assert!(below.join(path).is_file(), "{path} is not installed");
        }
        assert!(make("uninstall", prefix, &root, &built).status.success());
        assert_eq!(files_below(&root), 0);
    }
}
