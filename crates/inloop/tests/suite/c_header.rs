//! The C header beside the Rust library: the same layout, what one writes the other reads, and no system call either.

use super::{directory, only};
use std::io::{BufRead, BufReader};
use std::mem::offset_of;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use surefoot_inloop::layout::{CAPACITY_DEFAULT, Gap, HEADER_BYTES, Header, MAGIC, VERSION};
use surefoot_inloop::{Loop, Reader};

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-O2"];

fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/c")
}

fn exists(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The program that tests the header; none, and said so, where there is no compiler.
fn build(test: &str, into: &Path) -> Option<PathBuf> {
    if !exists("cc") {
        surefoot_testkit::not_run::not_run(test, "there is no C compiler; install gcc or clang");
        return None;
    }
    let program = into.join("layout_test");
    compile("cc", &["-std=gnu11"], "layout_test.c", &program);
    Some(program)
}

fn compile(compiler: &str, options: &[&str], source: &str, program: &Path) {
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(options).arg("-o").arg(program).arg(bindings().join(source));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn it_compiles_without_a_warning_as_c99_gnu11_and_cpp17() {
    let directory = directory();
    let mut used = 0;
    for (compiler, standards) in [
        ("gcc", &["-std=c99", "-std=gnu11"][..]),
        ("clang", &["-std=c99", "-std=gnu11"]),
        ("g++", &["-std=c++17"]),
        ("clang++", &["-std=c++17"]),
    ] {
        if !exists(compiler) {
            continue;
        }
        used += 1;
        for standard in standards {
            for source in ["layout_test.c", "example_poller.c"] {
                let language = if compiler.ends_with("++") { "c++" } else { "c" };
                compile(compiler, &[standard, "-x", language], source, &directory.path().join("program"));
            }
        }
    }
    if used == 0 {
        let why = "there is no C compiler; install gcc or clang";
        surefoot_testkit::not_run::not_run("it_compiles_without_a_warning_as_c99_gnu11_and_cpp17", why);
    }
}

#[test]
fn both_have_the_same_layout() {
    let directory = directory();
    let Some(program) = build("both_have_the_same_layout", directory.path()) else { return };
    let output = Command::new(program).arg("layout").output().unwrap();
    let mut expected = String::new();
    macro_rules! field {
        ($type:ty, $($field:ident: $field_type:ty),*) => {$(
            let name = stringify!($field);
            expected += &format!("{name} {} {}\n", offset_of!($type, $field), size_of::<$field_type>());
        )*};
    }
    field!(Header, magic: u64, version: u32, capacity: u32, pid: u32, tid: u32, thread_start: u64);
    field!(Header, threshold_ticks: u64, name: [u8; 64], pid_namespace: u64, reserved: [u8; 16]);
    field!(Header, head: u64, head_line: [u8; 56]);
    field!(Gap, before: u64, after: u64);
    expected += &format!("header 0 {HEADER_BYTES}\n");
    expected += &format!("gaps {HEADER_BYTES} {}\n", size_of::<Gap>() * CAPACITY_DEFAULT as usize);
    expected += &format!("version {VERSION} capacity {CAPACITY_DEFAULT} magic {MAGIC:x}\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn what_c_writes_is_read() {
    let directory = directory();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = build("what_c_writes_is_read", programs.path()) else { return };
    let mut reader = Reader::open(directory.path()).unwrap();
    let mut child = Command::new(program)
        .arg("write")
        .env("SUREFOOT_LOOP_DIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (path, threshold) = line.trim().split_once(' ').unwrap();
    let found = only(reader.poll());
    assert_eq!((found.pid, found.tid, found.name.as_str()), (child.id(), child.id(), "written in C"));
    assert_eq!(found.threshold_ticks, threshold.parse::<u64>().unwrap());
    // 4,196 in all; the place of the oldest of the last 4,096 may be in use.
    assert_eq!((found.overwritten, found.gaps.len()), (101, 4_095));
    let befores = found.gaps.iter().map(|(before, _)| *before);
    assert!(befores.eq(102..=4_196) && found.gaps.windows(2).all(|pair| pair[0].1 < pair[1].1));
    assert!(Path::new(path).exists());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!Path::new(path).exists());
    assert!(only(reader.poll()).ended);
    // Both measure the same rate for their thresholds.
    let gaps = super::open(directory.path(), Duration::from_millis(1));
    let ours = only(reader.poll()).threshold_ticks;
    assert!(ours.abs_diff(found.threshold_ticks) < ours / 20, "{ours} {}", found.threshold_ticks);
    drop(gaps);
}

#[test]
fn what_rust_writes_c_reads() {
    let directory = directory();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = build("what_rust_writes_c_reads", programs.path()) else { return };
    let mut gaps = Loop::open_with("for C", &super::options(directory.path(), Duration::ZERO)).unwrap();
    while gaps.noted() < 100 {
        gaps.turn();
    }
    let found = only(Reader::from_start(directory.path()).unwrap().poll());
    let output = Command::new(program).arg("read").arg(gaps.path().unwrap()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let words: Vec<&str> = header.splitn(9, ' ').collect();
    let (pid, tid) = (found.pid.to_string(), found.tid.to_string());
    assert_eq!(words[..4], ["1", "4096", &pid, &tid]);
    assert_eq!(words[5..], ["0", words[6], "100", "for C"]);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap();
    assert_eq!(stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19), Some(words[4]));
    let expected: String = found.gaps.iter().map(|(before, after)| format!("{before} {after}\n")).collect();
    assert_eq!(rest, expected);
}

#[test]
fn its_turns_make_no_system_call() {
    let directory = directory();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = build("its_turns_make_no_system_call", programs.path()) else { return };
    let run = |what| Command::new(&program).arg(what).env("SUREFOOT_LOOP_DIR", directory.path()).status().unwrap();
    let sealed = run("sealed");
    if sealed.code() == Some(77) {
        let why = "this kernel or this container has no seccomp filters";
        surefoot_testkit::not_run::not_run("its_turns_make_no_system_call", why);
        return;
    }
    assert_eq!(sealed.code(), Some(42), "{sealed}");
    // The seal holds.
    assert_eq!(run("broken").signal(), Some(libc::SIGSYS));
}

#[test]
fn it_says_why_it_cannot_open_and_turns_all_the_same() {
    let directory = directory();
    let programs = tempfile::tempdir().unwrap();
    let Some(program) = build("it_says_why_it_cannot_open_and_turns_all_the_same", programs.path()) else { return };
    let open_to_all = directory.path().join("open");
    std::fs::create_dir(&open_to_all).unwrap();
    std::fs::set_permissions(&open_to_all, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    for (path, error, says) in [
        (Path::new("relative"), libc::EINVAL, "absolute path"),
        (Path::new("/proc"), libc::EMEDIUMTYPE, "tmpfs"),
        (&open_to_all, libc::EPERM, "chmod +t"),
        (&link, libc::ENOTDIR, "Not a directory"),
        (Path::new("/dev/shm/surefoot-none/deeper"), libc::ENOENT, "No such file"),
    ] {
        let output = Command::new(&program).arg("fail").env("SUREFOOT_LOOP_DIR", path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}: {text}", path.display());
        assert!(text.starts_with(&format!("-{error} 0 ")) && text.contains(says), "{}: {text}", path.display());
    }
}
