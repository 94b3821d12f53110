//! The file that says on which nodes a job saved, where it is there and cannot be read.

use super::session::{Tiers, job};
use std::fs;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Config, Policy, inspect};

/// Only that there is no file of nodes says that there was none.
#[test]
fn a_file_of_nodes_that_cannot_be_read_is_no_beginning_and_a_problem_and_stays_as_it_is() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Durable));
    let (ssd, generations) = (tiers.home.path().join("ssd"), tiers.home.path().join("generations"));
    let run = |config: &Config| -> Vec<(Result<bool, String>, String)> {
        job(2, config, |mut rank| {
            let restored = rank.job.restart().map(|it| it.is_some()).map_err(|error| error.to_string());
            if restored.is_ok() {
                rank.save(9);
                rank.job.wait_for_copies().unwrap();
            }
            (restored, rank.job.take_notices().join("; "))
        })
    };
    job(2, &config, |mut rank| {
        rank.save(1);
        rank.job.wait_for_copies().unwrap();
    });
    let nodes = ssd.join("job/nodes");
    let whole = fs::read(&nodes).unwrap();
    let mut one_bit = whole.clone();
    one_bit[60] ^= 1;
    fs::rename(ssd.join("job"), &generations).unwrap();
    let lay = |damaged: &[u8], has_generations: bool| {
        let _ = fs::remove_dir_all(ssd.join("job"));
        fs::create_dir(ssd.join("job")).unwrap();
        for entry in fs::read_dir(&generations).unwrap() {
            let (from, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
            let to = ssd.join("job").join(&name);
            match from.is_dir() {
                true if has_generations => {
                    fs::create_dir(&to).unwrap();
                    for file in fs::read_dir(&from).unwrap() {
                        let file = file.unwrap();
                        fs::copy(file.path(), to.join(file.file_name())).unwrap();
                    }
                }
                true => {}
                false => drop(fs::copy(&from, &to).unwrap()),
            }
        }
        fs::write(&nodes, damaged).unwrap();
    };
    for damaged in [&one_bit[..], b"", &whole[..40]] {
        lay(damaged, false);
        for (restored, _) in run(&config) {
            let why = restored.unwrap_err();
            assert!(why.contains(nodes.to_str().unwrap()) && why.contains("to start over, remove that file"), "{why}");
        }
        assert_eq!(fs::read(&nodes).unwrap(), damaged);
        let problems = || inspect::survey(std::slice::from_ref(&ssd)).unwrap().problems;
        assert!(problems().iter().any(|problem| problem.path == nodes), "{:?}", problems());
        // What is whole comes back, and what earlier runs wrote down is not written over.
        lay(damaged, true);
        assert!(problems().iter().any(|problem| problem.path == nodes), "{:?}", problems());
        let said: Vec<String> =
            run(&config).into_iter().map(|(restored, said)| format!("{restored:?} {said}")).collect();
        assert!(said.iter().all(|said| said.starts_with("Ok(true)")), "{said:?}");
        assert!(said.iter().any(|said| said.contains("It is left as it is")), "{said:?}");
        assert_eq!(fs::read(&nodes).unwrap(), damaged);
    }
    // As it says, after a boot.
    lay(&one_bit, false);
    fs::remove_file(&nodes).unwrap();
    fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
    assert!(run(&config).iter().all(|(restored, _)| *restored == Ok(false)));
}

/// One rank's part is gone, and the file that says whose part lies where cannot be read: it is there.
#[test]
fn what_is_missing_beside_a_file_of_nodes_that_cannot_be_read_says_so() {
    let tiers = Tiers::new();
    job(2, &tiers.config(Policy::Fixed(Fixed::Memory)), |mut rank| {
        rank.save(1);
    });
    let memory = fs::canonicalize(tiers.home.path().join("memory")).unwrap();
    fs::remove_dir_all(memory.join("job/rank-00001")).unwrap();
    let unreadable = || {
        let survey = inspect::survey(std::slice::from_ref(&memory)).unwrap();
        let missing = inspect::missing(&survey);
        assert_eq!(missing.len(), 1, "{missing:?}");
        (missing[0].were_here, missing[0].nodes_unreadable.is_some())
    };
    assert_eq!(unreadable(), (true, false));
    fs::write(memory.join("job/nodes"), "").unwrap();
    assert_eq!(unreadable(), (false, true));
    fs::remove_file(memory.join("job/nodes")).unwrap();
    assert_eq!(unreadable(), (false, false));
}

/// What cannot be listed may be what is looked for.
#[test]
fn a_checkpoint_in_a_directory_that_cannot_be_listed_is_not_said_to_be_lost() {
    let tiers = Tiers::new();
    job(1, &tiers.config(Policy::Fixed(Fixed::Durable)), |mut rank| {
        rank.save(1);
        rank.job.wait_for_copies().unwrap();
    });
    let ssd = fs::canonicalize(tiers.home.path().join("ssd")).unwrap();
    let mut survey = inspect::survey(std::slice::from_ref(&ssd)).unwrap();
    let generation = survey.copies[0].directory.clone();
    survey.copies.clear();
    let lost = |survey: &inspect::Survey| inspect::lost(survey, &mut |_, _| None).len();
    assert_eq!(lost(&survey), 1);
    survey.unlisted = vec![(generation, 0)];
    assert_eq!(lost(&survey), 0);
}
