//! The Python package over this library: its own tests, run by the Python that is here.
//!
//! That is the first one with NumPy, PyTorch and mpi4py of the shell's and the distribution's; for what needs NumPy 2 and
//! ml_dtypes, or PyTorch 2.5, those that `xtask/setup.sh test` makes. `SUREFOOT_PYTHON` names another one, such as that of an
//! environment with newer versions.

use super::build::{bindings, libraries};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Mutex;
use surefoot_testkit::not_run::not_run;

/// The oldest Python that the package supports.
const PYTHON_MIN: &str = "import sys; sys.exit(sys.version_info < (3, 9))";

/// What all of the tests need.
const PACKAGES: &str = "import numpy, torch, mpi4py";

/// What tests of small numbers need.
const SMALL: &str = "import numpy, ml_dtypes";

/// What tests of distributed tensors need.
const DISTRIBUTED: &str = "import numpy, torch.distributed.tensor._api";

/// The Python that runs tests which need these packages. Importing PyTorch takes two seconds of a processor, so each set is
/// looked for once.
fn python(packages: &'static str) -> String {
    static FOUND: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap();
    found.entry(packages).or_insert_with(|| look_for(packages)).clone()
}

fn look_for(packages: &str) -> String {
    std::env::var("SUREFOOT_PYTHON").unwrap_or_else(|_| {
        let own = ["ml_dtypes/bin/python3", "torch/python3"].map(|own| libraries().join("../../tools").join(own));
        let own = own.iter().map(|path| path.to_str().unwrap());
        let mut candidates = ["python3", "/usr/bin/python3"].into_iter().chain(own);
        candidates.find(|python| succeeds(python, packages)).unwrap_or("python3").to_owned()
    })
}

fn succeeds(python: &str, program: &str) -> bool {
    Command::new(python).args(["-c", program]).output().is_ok_and(|output| output.status.success())
}

/// Runs a class of tests: all of them pass, or none runs on this machine, for the reason that they give.
fn passes(test: &str, class: &str) {
    passes_with(PACKAGES, test, class);
}

fn passes_with(packages: &'static str, test: &str, class: &str) {
    let python = python(packages);
    if !succeeds(&python, PYTHON_MIN) {
        return not_run(test, &format!("{python} is not there, or older than 3.9; install python3"));
    }
    if packages == SMALL && !succeeds(&python, packages) {
        return not_run(test, "no Python here has NumPy and ml_dtypes; xtask/setup.sh test installs them with pip");
    }
    let output = Command::new(&python)
        .args(["-m", "unittest", "--verbose", &format!("tests.{class}")])
        .current_dir(bindings().join("../python"))
        .env("SUREFOOT_LIBRARY", libraries().join("libsurefoot.so"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{class}: {said}");
    let count = |line: &str| line.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
    let ran = said.lines().filter(|line| line.starts_with("Ran ")).find_map(count).unwrap_or(0);
    assert!(ran > 0, "{class}: {said}");
    let reasons: Vec<&str> =
        said.lines().filter_map(|line| line.split_once(" ... skipped ")).map(|(_, why)| why).collect();
    match reasons.first() {
        None => {}
        Some(why) => {
            assert_eq!(reasons.len(), ran, "a part of {class} did not run: {said}");
            not_run(test, &format!("{}; SUREFOOT_PYTHON may name another Python", why.trim_matches('\'')));
        }
    }
}

#[test]
fn python_buffers() {
    passes("python_buffers", "test_buffers.Buffers");
}

#[test]
fn python_jobs() {
    passes("python_jobs", "test_job.Jobs");
}

#[test]
fn python_states() {
    passes("python_states", "test_state.States");
}

#[test]
fn python_round_trips() {
    passes("python_round_trips", "test_roundtrip.Roundtrips");
}

#[test]
fn python_many_arrays() {
    passes("python_many_arrays", "test_pack.Packs");
}

#[test]
fn python_ranks_of_mpi_that_are_apart() {
    passes("python_ranks_of_mpi_that_are_apart", "test_apart.MpiApart");
}

#[test]
fn python_ranks_of_gloo_that_are_apart() {
    passes("python_ranks_of_gloo_that_are_apart", "test_apart.TorchApart");
}

#[test]
fn python_ranks_of_mpi_that_close() {
    passes("python_ranks_of_mpi_that_close", "test_closed.MpiClosed");
}

#[test]
fn python_ranks_of_gloo_that_close() {
    passes("python_ranks_of_gloo_that_close", "test_closed.TorchClosed");
}

#[test]
fn python_ranks_of_mpi_of_which_one_refuses() {
    passes("python_ranks_of_mpi_of_which_one_refuses", "test_refused.MpiRefused");
}

#[test]
fn python_ranks_of_gloo_of_which_one_refuses() {
    passes("python_ranks_of_gloo_of_which_one_refuses", "test_refused.TorchRefused");
}

#[test]
fn python_other_numbers_of_ranks() {
    passes("python_other_numbers_of_ranks", "test_resized.Resized");
}

#[test]
fn python_programs_that_are_killed() {
    passes("python_programs_that_are_killed", "test_crash.Crashes");
}

#[test]
fn python_groups() {
    passes("python_groups", "test_groups.Ranks");
}

#[test]
fn python_guide() {
    passes("python_guide", "test_guide.Guide");
}

#[test]
fn numpy_arrays() {
    passes("numpy_arrays", "test_numpy.Arrays");
}

#[test]
fn numpy_programs_that_are_killed() {
    passes("numpy_programs_that_are_killed", "test_crash.NumpyCrashes");
}

#[test]
fn numpy_guide() {
    passes("numpy_guide", "test_guide.GuideNumpy");
}

#[test]
fn mpi4py_ranks() {
    passes("mpi4py_ranks", "test_groups.MpiRanks");
}

#[test]
fn pytorch_tensors() {
    passes("pytorch_tensors", "test_torch.Tensors");
}

#[test]
fn numpy_small_floats() {
    passes_with(SMALL, "numpy_small_floats", "test_numpy.SmallFloats");
}

#[test]
fn numpy_2_round_trips() {
    passes_with(SMALL, "numpy_2_round_trips", "test_roundtrip.Roundtrips.test_from_memory");
}

#[test]
fn numpy_2_arrays() {
    passes_with(SMALL, "numpy_2_arrays", "test_numpy.Arrays");
}

#[test]
fn pytorch_benchmark() {
    passes("pytorch_benchmark", "test_bench.Bench");
}

#[test]
fn pytorch_distributed_tensors() {
    passes_with(DISTRIBUTED, "pytorch_distributed_tensors", "test_torch.DTensors");
}

#[test]
fn pytorch_tensors_of_a_gpu() {
    passes("pytorch_tensors_of_a_gpu", "test_torch.CudaTensors");
}

#[test]
fn pytorch_guide() {
    passes("pytorch_guide", "test_guide.GuideTorch");
}
