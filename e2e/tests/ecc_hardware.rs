//! `surefoot ecc verilog`: what it writes, where, and what it refuses.

use std::fs;
use std::os::unix::fs::symlink;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};

const FILES: [&str; 3] = ["rs18_16.v", "rs19_16.v", "rs36_32.v"];

#[test]
fn each_code_is_written_the_same_wherever_it_goes() {
    let Some(_turn) = turn("each_code_is_written_the_same_wherever_it_goes", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    surefoot("ecc verilog --directory").arg(folder.path()).run().expect_code(0);
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, FILES);
    for (name, code) in FILES.iter().zip(["RS(18,16)", "rs19_16", "rs(36,32)"]) {
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        for unit in ["syndrome", "check", "correct", "decode"] {
            let head = format!("module {}_{unit} (", name.trim_end_matches(".v"));
            assert_eq!(text.matches(&head).count(), 1, "{name} {unit}");
        }
        let printed = surefoot("ecc verilog --code").arg(code).run();
        assert_eq!(printed.expect_code(0).stdout, text);
        let file = folder.path().join("one.v");
        surefoot("ecc verilog --force --code").arg(code).arg("--out").arg(&file).run().expect_code(0);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    // A code that is named twice is there once: a module must not be defined twice.
    let twice = surefoot("ecc verilog --code rs18_16 --code RS(18,16)").run();
    assert_eq!(twice.expect_code(0).stdout, fs::read_to_string(folder.path().join(FILES[0])).unwrap());
    assert_eq!(surefoot("ecc verilog").run().expect_code(0).stdout.matches("endmodule").count(), 12);
}

#[test]
fn what_is_there_is_kept_unless_force_is_given() {
    let Some(_turn) = turn("what_is_there_is_kept_unless_force_is_given", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("rs19_16.v");
    fs::write(&kept, "mine").unwrap();
    let there = ["rs19_16.v is there already", "--force"];
    surefoot("ecc verilog --out").arg(&kept).run().expect_refusal(2, &there);
    surefoot("ecc verilog --directory").arg(folder.path()).run().expect_refusal(2, &there);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "all or none");
    surefoot("ecc verilog --force --directory").arg(folder.path()).run().expect_code(0);
    assert!(fs::read_to_string(&kept).unwrap().contains("module rs19_16_decode ("));

    let link = folder.path().join("link.v");
    symlink("nowhere.v", &link).unwrap();
    surefoot("ecc verilog --out").arg(&link).run().expect_refusal(2, &["link.v is there already"]);
    assert!(!folder.path().join("nowhere.v").exists());
}

#[test]
fn what_cannot_be_written_or_is_no_code_is_refused() {
    let Some(_turn) = turn("what_cannot_be_written_or_is_no_code_is_refused", Need::Nothing) else { return };
    for (words, said) in [
        ("ecc verilog --code RS(19,17)", &["--code", "RS(19,17)", "RS(36,32) or rs36_32"][..]),
        ("ecc verilog --out /nowhere/at/all.v", &["--out", "/nowhere/at/all.v"]),
        ("ecc verilog --directory /nowhere", &["--directory", "/nowhere", "create it first"]),
        ("ecc verilog --directory /dev/null", &["/dev/null is not a directory"]),
        ("ecc verilog --out x.v --directory /tmp", &["--out", "--directory"]),
        ("ecc verilog --out /proc --force", &["--out", "/proc"]),
        ("ecc verilog --out /dev/full --force", &["/dev/full", "No space left"]),
    ] {
        surefoot(words).run().expect_refusal(2, said);
    }
}
