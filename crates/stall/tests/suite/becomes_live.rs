//! A process that becomes another program after it raised and before anybody named its stacks, on the running kernel.
#![allow(clippy::unwrap_used)]

use super::live::{self, WATCHED};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use surefoot_hostfs::Root;
use surefoot_model::Raiser;
use surefoot_probes::{Options, Probes};
use surefoot_stall::Traced;
use surefoot_stall::who::Watch;
use surefoot_testkit::not_run::not_run;

#[test]
fn stacks_of_the_program_before_execve_have_no_names_of_the_one_after() {
    const TEST: &str = "stacks_of_the_program_before_execve_have_no_names_of_the_one_after";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let compiled = |name, define| {
        let flags = ["-static", "-no-pie", "-fomit-frame-pointer", "-Wl,--eh-frame-hdr", define];
        live::program(TEST, folder.path(), name, "becomes.c", &flags)
    };
    let Some(before) = compiled("before", "-UAFTER") else { return };
    let Some(after) = compiled("after", "-DAFTER") else { return };
    super::names::by_this_program();
    let probes = match Probes::attach(&Options { raisers_follow: true, ..Options::default() }) {
        Ok(probes) => probes,
        Err(error) => return not_run(TEST, &error.to_string()),
    };
    let mut traced = Traced::new(&Root::host(), probes, &[WATCHED]);
    let config = live::config();
    let mut watch = match Watch::attach(&Root::host(), &mut traced, &config) {
        Ok(watch) => watch,
        Err(error) => return not_run(TEST, &error.to_string()),
    };
    watch.start(&mut traced);
    // Nobody looks until it is the second program: the records wait, and all stacks are named afterwards.
    let mut command = Command::new(&before);
    command.arg("150").arg(&after).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    watch.look(&mut traced);
    let report = watch.finish(&mut traced);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success() && line == "done\n", "{line}");
    let raisers: Vec<Raiser> = report.interrupts.into_iter().flat_map(|interrupt| interrupt.raisers).collect();
    let of = |comm: &str| -> Vec<&Raiser> {
        let own = raisers.iter().filter(|raiser| raiser.pid == child.id() && raiser.comm == comm);
        own.filter(|raiser| raiser.syscall == "munmap" && !raiser.user_stack.is_empty()).collect()
    };
    let (old, new) = (of("before"), of("after"));
    assert!(!old.is_empty() && !new.is_empty(), "both raised: {raisers:#?}");
    for raiser in old {
        let is_told =
            |frame: &String| frame.starts_with("0x") && frame.ends_with(" (the process runs another program since)");
        assert!(raiser.user_stack.iter().all(is_told), "{raiser:#?}");
    }
    assert!(new.iter().any(|raiser| raiser.user_stack.iter().any(|frame| frame == "raised_after")), "{new:#?}");
}
