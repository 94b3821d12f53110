//! The same tests on another kernel than this machine's: Debian 12's, whose verifier knows less. What it refuses, no other
//! test on a newer kernel sees.

use surefoot_testkit::guest::Guest;
use surefoot_testkit::not_run::not_run;

/// Tests that attach every program between them, and that a machine with two cores and no control groups can run.
const WHAT: [&str; 5] = [
    "the_ledger_adds_up_on_",
    "the_tape_is_in_the_order_of_time",
    "what_finds_the_ring_full_is_dropped",
    "all_tasks_that_wait_are_counted",
    "the_names_of_tasks_are_written",
];

#[test]
fn every_program_works_on_the_kernel_of_debian_12() {
    const NAME: &str = "older_kernel::every_program_works_on_the_kernel_of_debian_12";
    let guest = match Guest::find() {
        Ok(guest) => guest.with_cores(2),
        Err(why) => return not_run(NAME, &why),
    };
    let arguments = [&["--test-threads=1", "--nocapture"], &WHAT[..]].concat();
    let ran = guest.run(&std::env::current_exe().unwrap(), &arguments, &[("RUST_BACKTRACE", "0")]).unwrap();
    println!("{}", ran.text);
    assert!(
        ran.code == Some(0) && ran.text.contains("7 passed; 0 failed"),
        "{:?}: {}\n{}",
        ran.code,
        ran.text,
        ran.console
    );
    // A test whose programs were refused says that it did not run.
    let refused: Vec<&str> = ran.text.lines().filter(|line| line.contains("not run: ")).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
