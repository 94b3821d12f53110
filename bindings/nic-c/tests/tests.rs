//! A program in C on the ports of two interfaces, one of which is hung meanwhile.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;
use surefoot_nic::firmware::Build;
use surefoot_nic::host::layout::{control, inject};
use surefoot_nic::live::local::Pair;
use surefoot_testkit::not_run::not_run;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles the example against the library that cargo has just built; `None`, and said, without a compiler.
fn compile(test: &str, compiler: &str, options: &[&str], into: &Path) -> Option<PathBuf> {
    compile_file(test, compiler, options, &folder().join("examples/exchange.c"), into)
}

fn compile_file(test: &str, compiler: &str, options: &[&str], file: &Path, into: &Path) -> Option<PathBuf> {
    if !Command::new(compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        not_run(test, &format!("there is no {compiler}"));
        return None;
    }
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = into.join(format!("exchange-{}", compiler.replace('+', "p")));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"]).args(options).arg("-I").arg(folder());
    command.arg("-o").arg(&program).arg(file).args(["-x", "none"]);
    command.arg(libraries.join("libsurefoot_nic_c.a")).args(["-lpthread", "-ldl", "-lm"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

#[test]
fn a_program_in_c_sends_and_receives_while_an_interface_hangs() {
    const TEST: &str = "a_program_in_c_sends_and_receives_while_an_interface_hangs";
    let home = tempfile::tempdir().unwrap();
    let Some(program) = compile(TEST, "cc", &["-std=c99"], home.path()) else { return };
    let run = home.path().join("run");
    let pair = Pair::start(&run, Build::Tolerant, 1 << 20, 20_000).unwrap();
    let child = Command::new(&program).arg(&run).arg("3000").spawn().unwrap();
    let mut hung = 0;
    let mut child = child;
    while child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        pair.memories[hung % 2].word(control::INJECT).store(inject::HANG, Ordering::Release);
        pair.memories[hung % 2].ring();
        hung += 1;
    }
    assert!(child.wait().unwrap().success());
    let recovered = pair.steps.iter().map(|steps| steps.text().matches("recovered").count()).sum::<usize>();
    println!("{hung} failures, {recovered} recoveries");
    assert!(recovered > 0, "{}", pair.steps[0].text());
}

/// A program that becomes a service opens its ports first and forks then, as daemon(3) does.
#[test]
fn a_child_of_the_process_that_opened_a_port_is_told_that_it_has_none() {
    const PROGRAM: &str = r#"
        #include "surefoot_nic.h"
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int count, char **words)
        {
            surefoot_nic_port *port;
            int status;
            if (count != 2 || surefoot_nic_open(words[1], 0, 2, 1, &port))
                return 2;
            if (!fork())
                _exit(surefoot_nic_send_tokens(port) == SUREFOOT_NIC_OPEN && !surefoot_nic_close(port) ? 0 : 3);
            if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
                return 4;
            return surefoot_nic_send_tokens(port) == 16 && !surefoot_nic_close(port) ? 0 : 5;
        }"#;
    const TEST: &str = "a_child_of_the_process_that_opened_a_port_is_told_that_it_has_none";
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("fork.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let Some(program) = compile_file(TEST, "cc", &["-std=c99"], &source, home.path()) else { return };
    let run = home.path().join("run");
    let _pair = Pair::start(&run, Build::Tolerant, 1 << 20, 20_000).unwrap();
    assert_eq!(Command::new(program).arg(&run).status().unwrap().code(), Some(0));
}

#[test]
fn the_header_is_also_one_for_cpp() {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("header.cpp");
    std::fs::write(&source, "#include \"surefoot_nic.h\"\nint main() { return surefoot_nic_close(nullptr) == 0; }\n")
        .unwrap();
    let Ok(output) = Command::new("c++")
        .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(folder())
        .arg(&source)
        .output()
    else {
        return not_run("the_header_is_also_one_for_cpp", "there is no c++");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The most memory that this process ever asked for.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn who_waits_for_an_event_hears_that_the_run_has_ended() {
    use surefoot_nic_c as c;
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    let pair = Pair::start(&run, Build::Tolerant, 1 << 20, 0).unwrap();
    let run = std::ffi::CString::new(run.to_str().unwrap()).unwrap();
    let (ended, is_ended) = std::sync::mpsc::channel();
    let (opened, is_open) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let (mut port, mut event) = (std::ptr::null_mut(), c::SurefootNicEvent::default());
        // SAFETY: the text ends in a NUL, and places are as large as what is put there.
        unsafe {
            assert_eq!(c::surefoot_nic_open(run.as_ptr(), 0, 2, 2, &raw mut port), 0);
            assert_eq!(c::surefoot_nic_receive(port, &raw mut event, 1_000_000), 0, "nothing yet");
            opened.send(()).unwrap();
            ended.send(c::surefoot_nic_receive(port, &raw mut event, u64::MAX)).unwrap();
            assert_eq!(c::surefoot_nic_close(port), 0);
        }
    });
    is_open.recv().unwrap();
    drop(pair);
    assert_eq!(is_ended.recv_timeout(Duration::from_secs(120)), Ok(-5));
    waiting.join().unwrap();
}

#[test]
fn what_is_wrong_is_refused_with_a_sentence() {
    use surefoot_nic_c as c;
    let text = || {
        // SAFETY: it is read before the next call.
        unsafe { std::ffi::CStr::from_ptr(c::surefoot_nic_error()) }.to_str().unwrap().to_owned()
    };
    let home = tempfile::tempdir().unwrap();
    let run = home.path().join("run");
    let _pair = Pair::start(&run, Build::Tolerant, 1 << 20, 0).unwrap();
    let run = std::ffi::CString::new(run.to_str().unwrap()).unwrap();
    let (mut port, mut again) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: texts end in a NUL, and places are as large as what is put there.
    unsafe {
        assert_eq!(c::surefoot_nic_open(c"/nowhere".as_ptr(), 0, 2, 1, &raw mut port), -3);
        assert_eq!(text(), "cannot open the run directory /nowhere: No such file or directory");
        assert_eq!(c::surefoot_nic_open(run.as_ptr(), 5, 2, 1, &raw mut port), -3);
        assert!(text().contains("has no node 5"), "{}", text());
        assert_eq!(c::surefoot_nic_open(run.as_ptr(), 0, 2, 2, &raw mut port), 0);
        assert_eq!(c::surefoot_nic_open(run.as_ptr(), 0, 2, 2, &raw mut again), -3);
        assert!(text().contains("port 2 is open already"), "{}", text());
        for port in [0, 7, 99] {
            assert_eq!(c::surefoot_nic_open(run.as_ptr(), 0, port, 2, &raw mut again), -3);
            assert!(text().contains("programs have the ports 1 to 6"), "{}", text());
        }
        assert_eq!(c::surefoot_nic_open(run.as_ptr(), 0, 3, 0, &raw mut again), -3);
        assert!(text().contains("1 to 1024 pages"), "{}", text());
        assert_eq!(c::surefoot_nic_send_tokens(port), 16);
        let before = peak_bytes();
        assert_eq!(c::surefoot_nic_read(port, 0, std::ptr::dangling_mut(), u32::MAX), -1);
        assert!(peak_bytes() - before < 1 << 30, "so much was asked for and is not there");
        assert_eq!(c::surefoot_nic_write(port, 8190, b"abc".as_ptr().cast(), 3), -1);
        assert_eq!(c::surefoot_nic_send(port, 0, 12, 300, 1, 1, 0, None, std::ptr::null_mut()), -1);
        assert_eq!(c::surefoot_nic_send(port, 0, 12, 10, 9, 1, 0, None, std::ptr::null_mut()), -1);
        assert_eq!(text(), "there is no node 9: a run has the nodes 0 and 1");
        for token in 0..32 {
            assert_eq!(c::surefoot_nic_provide(port, token, token * 64, 6, 0), 0, "{}", text());
        }
        assert_eq!(c::surefoot_nic_provide(port, 32, 0x1000, 6, 0), -2);
        assert_eq!(text(), "all 32 tokens are in use: surefoot_nic_receive brings them back");
        assert_eq!(c::surefoot_nic_provide(port, 32, 0, 17, 0), -1);
        assert_eq!(text(), "there is no size class 17: classes are 0 to 16");
        assert_eq!(c::surefoot_nic_close(port), 0);
        assert_eq!(c::surefoot_nic_close(port), -1);
        assert!(text().contains("no open port"), "{}", text());
    }
}
