//! The commands of docs/guide/start-checkpoint.md, run as they stand there, in a home of their own.

use super::build::{bindings, can_run, libraries};
use super::install::{pip_offline, python_that_builds, python_with};
use super::run::{Tiers, line, said};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_testkit::not_run::not_run;

/// The blocks of the page in a language, with the heading that each stands below.
fn blocks(language: &str) -> Vec<(String, String)> {
    let page = fs::read_to_string(bindings().join("../../docs/guide/start-checkpoint.md")).unwrap();
    let (mut heading, mut found, mut block) = (String::new(), Vec::new(), None::<String>);
    let mut is_other = false;
    for text in page.lines() {
        match (&mut block, text) {
            (Some(_), "```") => found.extend(block.take().map(|block| (heading.clone(), block))),
            (Some(block), _) => *block += &format!("{text}\n"),
            (None, _) if text.starts_with("```") => {
                if !is_other && text == format!("```{language}") {
                    block = Some(String::new());
                } else {
                    is_other = !is_other;
                }
            }
            (None, _) => heading = text.strip_prefix("## ").map_or(heading, str::to_owned),
        }
    }
    assert!(block.is_none() && !is_other, "a block does not end");
    found
}

/// The commands below some headings, one after the other.
fn commands(headings: &[&str]) -> String {
    let all = blocks("sh");
    for heading in headings {
        assert!(all.iter().any(|(of, _)| of == heading), "no commands below {heading}");
    }
    all.into_iter().filter(|(of, _)| headings.contains(&of.as_str())).map(|(_, block)| block).collect()
}

/// Runs commands in the folder of the sources, with a home of their own and what the machine needs to run ranks.
fn follow(tiers: &Tiers, script: &str, asks_index: bool) -> (bool, String) {
    let home = tiers.path("home");
    fs::create_dir_all(&home).unwrap();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "300", "bash", "-eu", "-c", script]).current_dir(bindings().join("../.."));
    command.env("HOME", &home).env("TMPDIR", tiers.path("tmp"));
    // What this test run has built is installed, and not built once more.
    command.env("BUILT", libraries()).env("SUREFOOT_BUILD_LIBRARY", libraries().join("libsurefoot.so"));
    command.env("SUREFOOT_CHECKPOINT_SETTINGS", "none").env("SUREFOOT_CHECKPOINT_MEMORY", tiers.path("memory"));
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("OMPI_MCA_mpi_yield_when_idle", "1"),
    ] {
        command.env(name, value);
    }
    command.env("OMPI_MCA_btl_vader_backing_directory", tiers.path("tmp"));
    for name in
        ["SUREFOOT_LIBRARY", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "PYTHONPATH", "MAKEFLAGS", "MFLAGS", "DESTDIR"]
    {
        command.env_remove(name);
    }
    if !asks_index {
        pip_offline(&mut command);
    }
    let output = command.output().unwrap();
    (output.status.success(), said(&output))
}

fn log(tiers: &Tiers, name: &str) -> String {
    fs::read_to_string(tiers.path("home/first").join(name)).unwrap()
}

#[test]
fn the_page_leads_from_an_installed_library_to_a_restarted_mpi_program() {
    let test = "the_page_leads_from_an_installed_library_to_a_restarted_mpi_program";
    let programs = ["bash", "timeout", "make", "objcopy", "pkg-config", "mpicc", "mpirun"];
    if !can_run(test, &programs, "install make, binutils, pkg-config and Open MPI (libopenmpi-dev, openmpi-bin)") {
        return;
    }
    let tiers = Tiers::new();
    let (is_good, text) = follow(&tiers, &commands(&["Install", "An MPI program"]), false);
    assert!(is_good, "{text}");
    let again = log(&tiers, "again.log");
    for rank in 0..2 {
        let restarted = line(&again, &format!("rank {rank}: generation ")).to_owned();
        assert!(restarted.contains("from memory") && restarted.ends_with("pages, intact"), "{again}");
        assert!(text.contains(&restarted), "the page shows it: {text}");
    }
    // Nobody disturbs this one.
    let whole = Tiers::new();
    let script = format!(
        "cd {}; export LD_LIBRARY_PATH=$PWD/../surefoot/lib; mpirun -np 2 ./solver 300 1000 policy=never",
        tiers.path("home/first").display()
    );
    let (is_good, undisturbed) = follow(&whole, &script, false);
    assert!(is_good, "{undisturbed}");
    let digest = undisturbed.lines().find(|line| line.starts_with("digest ")).unwrap();
    assert_eq!(line(&again, "digest "), digest);
}

/// What pip says where it has no way to an index of packages.
const NO_INDEX: [&str; 4] = ["No matching distribution", "ConnectionError", "Max retries", "Temporary failure"];

#[test]
fn the_page_leads_from_a_wheel_to_a_restarted_training() {
    let test = "the_page_leads_from_a_wheel_to_a_restarted_training";
    let builds = python_that_builds(&["torch"]);
    // Without what makes wheels here, pip fetches it, as it does for whoever follows the page.
    let Some(python) = builds.or_else(|| python_with(&["ensurepip", "venv", "torch"])) else {
        return not_run(test, "no Python here has PyTorch and environments; install python3-torch and python3-venv");
    };
    let output = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let folder = python.parent().unwrap_or(Path::new("/usr/bin"));
    let first = format!("export PATH={}:$PATH source=$PWD\n", folder.display());
    let tiers = Tiers::new();
    let (is_good, text) = follow(&tiers, &(first.clone() + &commands(&["A training"])), builds.is_none());
    if !is_good && builds.is_none() && NO_INDEX.iter().any(|words| text.contains(words)) {
        return not_run(test, "pip has no index to ask here; install python3-setuptools and python3-wheel");
    }
    assert!(is_good, "{text}");
    let again = log(&tiers, "again.log");
    let restarted = again.lines().next().unwrap();
    assert!(restarted.starts_with("restarted at step ") && restarted.ends_with("pages, intact"), "{again}");
    assert!(text.contains(restarted), "the page shows it: {text}");
    let script = format!(
        "cd {}; . venv/bin/activate; python3 training_torch.py 3000 policy=memory",
        tiers.path("home/first").display()
    );
    let (is_good, undisturbed) = follow(&Tiers::new(), &(first + &script), false);
    assert!(is_good, "{undisturbed}");
    let end = undisturbed.lines().rfind(|line| line.starts_with("after 3000 steps")).unwrap();
    assert_eq!(again.lines().last(), Some(end));
}

#[test]
fn the_code_of_the_page_is_that_of_its_examples() {
    for (language, example) in
        [("c", "examples/conjugate_gradient.c"), ("python", "../python/examples/training_torch.py")]
    {
        let example = fs::read_to_string(bindings().join(example)).unwrap();
        let blocks = blocks(language);
        assert!(blocks.len() >= 2, "{language}");
        for (_, block) in blocks {
            assert!(example.contains(&block), "in no example:\n{block}");
        }
    }
}
