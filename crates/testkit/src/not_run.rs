//! What a test says when this machine cannot run it.
//!
//! A test that needs root, a kernel feature or a program that is missing calls [`not_run`] and returns. The test
//! runner then counts it as skipped, with the reason, and not as passed: `cargo xtask test` names a file in
//! [`NOT_RUN_FILE`], and every call appends its line there.

use std::io::Write;

/// The environment variable that names the file to which [`not_run`] appends.
pub const NOT_RUN_FILE: &str = "SUREFOOT_NOT_RUN";

/// The longest line; what is over is cut, so that lines of tests that run at once stay whole.
const LINE_BYTES_MAX: usize = 500;

/// Says that a test did not run, and why. Call it once per test, then return from the test.
///
/// `test` is the test's full name, without a colon and a space in it; it is what makes two calls one test.
///
/// # Panics
/// If the file of [`NOT_RUN_FILE`] cannot be written: a test must not pass for one that ran.
///
/// ```
/// # fn effective_root() -> bool { true }
/// if !effective_root() {
///     surefoot_testkit::not_run::not_run("the_ledger_adds_up", "loading eBPF programs needs root");
///     return;
/// }
/// ```
pub fn not_run(test: &str, reason: &str) {
    let line = line(test, reason);
    eprint!("not run: {line}");
    let Some(path) = std::env::var_os(NOT_RUN_FILE) else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        panic!("{NOT_RUN_FILE} names {}, which cannot be written: {error}", path.display());
    }
}

fn line(test: &str, reason: &str) -> String {
    let mut line = format!("{test}: {reason}").replace(['\n', '\r'], " ");
    let mut end = line.len().min(LINE_BYTES_MAX);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_has_a_limit() {
        assert_eq!(line("a_test", "no\nroot"), "a_test: no root\n");
        let long = line("a_test", &"é".repeat(1000));
        assert!(long.len() <= LINE_BYTES_MAX + 1 && long.ends_with("é\n"), "{long}");
    }
}
