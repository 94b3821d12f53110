//! The checked-in control program is that of the sources.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;
use surefoot_testkit::not_run::not_run;

const AGAIN: &str = "run firmware/ncp/build.sh and commit firmware/ncp/built";

#[test]
fn the_built_firmware_is_that_of_its_sources() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware/ncp");
    let sums = Command::new("sha256sum").args(["--check", "--quiet", "built/SOURCES"]).current_dir(&folder).output();
    let sums = sums.unwrap();
    assert!(sums.status.success(), "{}{AGAIN}", String::from_utf8_lossy(&sums.stdout));
}

#[test]
fn the_same_compiler_builds_the_same_firmware() {
    const TEST: &str = "the_same_compiler_builds_the_same_firmware";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware/ncp");
    let was = std::fs::read_to_string(folder.join("built/SOURCES")).unwrap();
    let was = was.lines().next().unwrap().trim_start_matches("# ");
    let is = Command::new("clang").arg("--version").output();
    let is = is.map(|found| String::from_utf8_lossy(&found.stdout).lines().next().unwrap_or_default().to_owned());
    match is {
        Ok(is) if is == was && Command::new("ld.lld").arg("--version").output().is_ok() => {}
        Ok(is) => return not_run(TEST, &format!("it was built by {was}; here is {is}, with or without ld.lld")),
        Err(error) => return not_run(TEST, &format!("clang: {error}")),
    }
    let out = tempfile::tempdir().unwrap();
    let built = Command::new("sh").arg("build.sh").arg(out.path()).current_dir(&folder).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in ["plain.elf", "detecting.elf", "tolerant.elf"] {
        let (fresh, kept) = (out.path().join(name), folder.join("built").join(name));
        assert!(std::fs::read(fresh).unwrap() == std::fs::read(kept).unwrap(), "{name} is another one: {AGAIN}");
    }
}
