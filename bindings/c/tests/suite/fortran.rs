//! The Fortran module, compiled and run.

use super::build::{bindings, can_run, libraries};
use super::run::{Tiers, line, mpirun, said, text_of};
use std::process::Command;

/// Compiles a program with the modules that it needs.
fn compile(compiler: &str, sources: &[&str], tiers: &Tiers) -> std::path::PathBuf {
    let program = tiers.path("tmp/program");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-J"]).arg(tiers.path("tmp"));
    sources.iter().for_each(|source| _ = command.arg(bindings().join("../fortran").join(source)));
    command.arg("-o").arg(&program).arg(libraries().join("libsurefoot.a")).args(["-lpthread", "-ldl", "-lm"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    program
}

#[test]
fn fortran_ranks_of_mpi_with_a_variable_on_one_of_them_are_told() {
    let test = "fortran_ranks_of_mpi_with_a_variable_on_one_of_them_are_told";
    if !can_run(test, &["mpif90", "mpirun"], "install Open MPI (libopenmpi-dev, openmpi-bin) and gfortran") {
        return;
    }
    let tiers = Tiers::new();
    let sources = ["surefoot_checkpoint.f90", "surefoot_checkpoint_mpi.f90", "checkpoint_mpi.f90"];
    let program = compile("mpif90", &sources, &tiers);
    let memory = tiers.path("memory").display().to_string();
    // Open MPI starts the ranks in the order of the parts that a colon separates.
    let run = |variable: &str| {
        let mut command = mpirun(1, &tiers, &program);
        command.env("MPIEXEC_TIMEOUT", "600").env("SUREFOOT_CHECKPOINT_MEMORY", &memory);
        command.args(["25", ":", "-np", "1", "-x", variable]).arg(&program).arg("25");
        command.output().unwrap()
    };
    let same = run("SUREFOOT_CHECKPOINT_MEMORY_THREADS=2");
    assert!(same.status.success(), "{}", said(&same));
    let other = run("SUREFOOT_CHECKPOINT_MEMORY_SLOTS=5");
    let text = said(&other);
    assert!(!other.status.success() && text.contains("memory.slots is 2 on rank 0 and is 5 on rank 1"), "{text}");
    let wrong = run("SUREFOOT_CHECKPOINT_MEMORY_SLOTS=500");
    assert!(!wrong.status.success() && said(&wrong).contains("SUREFOOT_CHECKPOINT_MEMORY_SLOTS"), "{}", said(&wrong));
}

#[test]
fn a_fortran_group_that_fails_says_why() {
    let test = "a_fortran_group_that_fails_says_why";
    if !can_run(test, &["mpif90", "mpirun"], "install Open MPI (libopenmpi-dev, openmpi-bin) and gfortran") {
        return;
    }
    let tiers = Tiers::new();
    let program = tiers.path("tmp/program");
    let programs = bindings().join("tests/programs");
    let modules = bindings().join("../fortran");
    let mut command = Command::new("mpif90");
    command.arg("-J").arg(tiers.path("tmp")).arg("-o").arg(&program).arg(programs.join("group_failed.c"));
    command.args(["surefoot_checkpoint.f90", "surefoot_checkpoint_mpi.f90"].map(|source| modules.join(source)));
    let output = command.arg(programs.join("mpi_group.f90")).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    let text = text_of(mpirun(2, &tiers, &program).env("MPIEXEC_TIMEOUT", "600"));
    for (what, outcome) in [("equal", "good"), ("shorter", "failed"), ("longer", "failed"), ("no rank", "failed")] {
        assert!(text.lines().any(|line| line == format!("{what}: {outcome}")), "{what}: {text}");
    }
    let causes = |words: &str| text.lines().filter(|line| line.starts_with("cause: ") && line.contains(words)).count();
    assert_eq!([causes(""), causes("MPI_ERR_TRUNCATE")], [8, 4], "of two ranks: {text}");
}

#[test]
fn a_fortran_program_goes_on_where_it_was() {
    if !can_run("a_fortran_program_goes_on_where_it_was", &["gfortran"], "install gfortran") {
        return;
    }
    let tiers = Tiers::new();
    let program = tiers.path("tmp/checkpoint");
    let mut command = Command::new("gfortran");
    command.args(["-std=f2008", "-O2", "-Wall", "-Wextra", "-Werror", "-J"]).arg(tiers.path("tmp"));
    for source in ["surefoot_checkpoint.f90", "checkpoint.f90"] {
        command.arg(bindings().join("../fortran").join(source));
    }
    command.arg("-o").arg(&program).arg(libraries().join("libsurefoot.a")).args(["-lpthread", "-ldl", "-lm"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    let run = |steps: &str, tiers: &Tiers| text_of(Command::new(&program).arg(tiers.path("memory")).arg(steps));
    run("25", &tiers);
    let text = run("40", &tiers);
    assert!(line(&text, "rank 0: generation 2 from memory").ends_with("pages, intact"), "{text}");
    assert_eq!(line(&text, "after 40 steps"), line(&run("40", &Tiers::new()), "after 40 steps"));
    let output = Command::new(&program).args(["relative", "10"]).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("memory: "), "{}", said(&output));
    // Its policy is memory.
    let mut command = Command::new(&program);
    command.args(["none", "10"]).env("SUREFOOT_CHECKPOINT_DURABLE", tiers.path("memory"));
    let output = command.output().unwrap();
    let text = said(&output);
    assert!(!output.status.success() && text.contains("policy: memory keeps checkpoints in memory"), "{text}");
}
