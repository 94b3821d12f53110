//! A counter that nobody can read says nothing of its module.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Rule, Verdict};
use crate::read::Controller;
use surefoot_model::{MemoryProblem, MemorySource, Severity};

pub(super) const RULE: Rule = Rule { name: "counters-unread", check };

/// Files that the evidence names.
const NAMED_MAX: usize = 3;

fn check(facts: &Facts) -> Verdict {
    let problems = &facts.reading.problems;
    let of_edac: Vec<&MemoryProblem> =
        problems.list.iter().filter(|problem| problem.source == MemorySource::Edac).collect();
    let count = problems.left_out.saturating_add(of_edac.len() as u64);
    if count > 0 {
        let named: Vec<String> =
            of_edac.iter().take(NAMED_MAX).map(|problem| format!("{}: {}", problem.path, problem.why)).collect();
        let more = count.saturating_sub(named.len() as u64);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        return Verdict::Found(found(
            Severity::Warning,
            format!("{}{more}", named.join("; ")),
            "errors that these files count are not seen: a count of 0 of their modules says nothing",
            "see to it that these files can be read; memory status lists all of them",
        ));
    }
    let counts = |one: &&Controller| [one.corrected, one.uncorrected].into_iter().flatten().any(|count| count > 0);
    let without = facts.reading.controllers.iter().filter(|one| one.places.is_empty()).filter(counts);
    let without: Vec<&str> = without.map(|one| one.id.as_str()).collect();
    if !without.is_empty() {
        return Verdict::Found(found(
            Severity::Warning,
            format!("errors are counted and no module is shown by {}", without.join(", ")),
            "the modules that these errors are of are not known",
            "load the EDAC driver again, and look whether it shows the modules",
        ));
    }
    match facts.reading.controllers.len() as u64 {
        0 => Verdict::CannotTell("there is no memory controller to read".into()),
        count => Verdict::Fine(format!("every counter of {} was read", counted(count, "controller", "controllers"))),
    }
}
