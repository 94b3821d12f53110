//! The Fortran module, compiled and run.

use super::build::{bindings, can_run, libraries};
use super::run::{Tiers, line, said, text_of};
use std::process::Command;

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
    assert!(line(&text, "rank 0: generation 2 from memory").ends_with("all good"), "{text}");
    assert_eq!(line(&text, "after 40 steps"), line(&run("40", &Tiers::new()), "after 40 steps"));
    let output = Command::new(&program).args(["relative", "10"]).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("memory: "), "{}", said(&output));
}
