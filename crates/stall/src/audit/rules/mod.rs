//! The checks, as data: one table row and one test each.

mod boot;
mod interrupts;
mod kernel;
mod memory;
mod power;
mod tasks;
#[cfg(test)]
mod testing;

use super::measure::Measured;
use super::read::{CoreSettings, Known, Settings};
use super::{Finding, RECORDED, State};
use surefoot_hostfs::cpus::format_list;
use surefoot_hostfs::settings::format_mask;
use surefoot_model::CpuId;

/// One check.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its stable name, as in JSON.
    pub name: &'static str,
    /// What the value should be.
    pub expected: &'static str,
    /// Why, in one sentence.
    pub why: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// The value now and, where it is not as expected, the command; an error is the reason why it cannot be checked.
    pub judge: fn(&Facts<'_>) -> Known<Judgement>,
    /// What was measured, where something was.
    pub evidence: fn(&Facts<'_>, &Measured) -> Known<String>,
}

/// The tables of all topics, in the order of the output.
const TOPICS: [&[Rule]; 7] =
    [FIRST, boot::RULES, interrupts::RULES, tasks::RULES, kernel::RULES, memory::RULES, power::RULES];

/// Without a core for everything else, every other advice about cores would be wrong.
const FIRST: &[Rule] = &[Rule {
    name: "housekeeping",
    expected: "at least one online core is not audited, and not isolated",
    why: "interrupts, kernel threads and all other tasks have to run somewhere",
    source: "kernel admin-guide/kernel-parameters: isolcpus, nohz_full, rcu_nocbs",
    judge: housekeeping,
    evidence: |_, _| Err("which cores are audited is a choice".to_owned()),
}];

fn housekeeping(facts: &Facts<'_>) -> Known<Judgement> {
    let online = known(&facts.settings.online)?;
    if facts.settings.leaves_none(&[]) {
        let value = format!("no housekeeping core is left: all online cores ({}) are audited", format_list(online));
        return fix(value, "audit and isolate fewer cores: leave out at least one, usually core 0");
    }
    let isolated = facts.settings.isolated.as_deref().unwrap_or_default();
    if facts.settings.leaves_none(isolated) {
        let value = format!("no housekeeping core is left: those not audited are isolated ({})", format_list(isolated));
        return fix(value, "audit and isolate fewer cores: leave out at least one, usually core 0");
    }
    fine(format!("housekeeping cores: {}", format_list(&facts.settings.housekeeping())))
}

/// The fix of a setting that would leave no core for everything else.
const NONE_LEFT: &str = "nothing, until a housekeeping core is left: see housekeeping";

/// Every check, in the order of the output.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    TOPICS.into_iter().flatten()
}

/// What a check looks at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The whole machine.
    pub settings: &'a Settings,
    /// The core.
    pub core: &'a CoreSettings,
    /// What happened meanwhile; `None` on a recorded tree.
    pub measured: Option<&'a Measured>,
}

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What is there now.
    pub value: String,
    /// What to do; `None` when it is as expected.
    pub command: Option<String>,
}

/// It is as expected.
fn fine(value: impl Into<String>) -> Known<Judgement> {
    Ok(Judgement { value: value.into(), command: None })
}

/// It is not, and this is what to do.
fn fix(value: impl Into<String>, command: impl Into<String>) -> Known<Judgement> {
    Ok(Judgement { value: value.into(), command: Some(command.into()) })
}

impl Rule {
    /// Applies the check. Pure.
    pub fn apply(&self, facts: &Facts<'_>) -> Finding {
        let (state, actual, fix) = match (self.judge)(facts) {
            Ok(Judgement { value, command: None }) => (State::Ok, value, String::new()),
            Ok(Judgement { value, command: Some(command) }) => (State::Fix, value, command),
            Err(reason) => (State::CannotBeChecked, reason, String::new()),
        };
        let evidence = match facts.measured {
            None => RECORDED.to_owned(),
            Some(measured) => (self.evidence)(facts, measured).unwrap_or_else(|why| format!("not measured: {why}")),
        };
        let Rule { name, expected, why, source, .. } = *self;
        let (actual, evidence) = (on_one_line(&actual), on_one_line(&evidence));
        Finding { cpu: facts.core.cpu, name, state, actual, expected: expected.to_owned(), why, fix, evidence, source }
    }
}

/// Names of drivers and threads come from outside, and must not move the cursor of a terminal.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Facts<'_> {
    /// The core.
    fn cpu(&self) -> CpuId {
        self.core.cpu
    }

    /// What was measured, or the reason why nothing was.
    fn measured(&self) -> Known<&Measured> {
        self.measured.ok_or_else(|| RECORDED.to_owned())
    }

    /// A command that sends something to the other cores, given as list and as mask.
    fn to_housekeeping(self, command: impl Fn(&str, &str) -> String) -> String {
        let cores = self.settings.housekeeping();
        if cores.is_empty() {
            return NONE_LEFT.to_owned();
        }
        command(&format_list(&cores), &format_mask(&cores))
    }

    /// A setting for the cores that it names already and all that are audited, given as list.
    fn for_audited(self, already: &[CpuId], setting: impl Fn(&str) -> String) -> String {
        if self.settings.leaves_none(already) {
            return NONE_LEFT.to_owned();
        }
        let mut cores = already.to_vec();
        cores.extend(&self.settings.audited);
        setting(&format_list(&cores))
    }
}

/// A set of cores for people: `1-3`, or `none`.
fn cores_text(cores: &[CpuId]) -> String {
    if cores.is_empty() { "none".to_owned() } else { format_list(cores) }
}

/// A borrowed value, or a copy of the reason why it is unknown.
fn known<T>(value: &Known<T>) -> Known<&T> {
    value.as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::testing::{good, settings};
    use super::*;
    use crate::audit::judge;
    use std::collections::HashSet;
    use surefoot_testkit::HostTree;

    #[test]
    fn names_are_unique_and_every_text_is_there() {
        let names: HashSet<&str> = all().map(|rule| rule.name).collect();
        assert_eq!(names.len(), all().count());
        for rule in all() {
            let texts = [rule.name, rule.expected, rule.why, rule.source];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", rule.name);
            assert!(!rule.why.ends_with('.') && !rule.why.contains(". "), "{}: one sentence: {}", rule.name, rule.why);
        }
    }

    #[test]
    fn on_an_empty_tree_every_check_says_why_it_cannot_be_done() {
        let tree = HostTree::new();
        let findings = judge(&settings(&tree, &[1]), None);
        assert_eq!(findings.len(), all().count());
        for finding in findings {
            assert_eq!(finding.state, State::CannotBeChecked, "{finding:?}");
            assert!(finding.actual.len() > 10 && finding.fix.is_empty(), "{finding:?}");
            assert_eq!(finding.evidence, RECORDED);
        }
    }

    #[test]
    fn on_the_good_tree_nothing_is_to_be_fixed() {
        for finding in judge(&settings(&good(), &[2, 3]), None) {
            assert_ne!(finding.state, State::Fix, "{finding:?}");
        }
    }

    #[test]
    fn without_a_housekeeping_core_that_is_said_first_and_no_advice_contradicts_it() {
        let tree = |isolated: &str| {
            good()
                .file("sys/devices/virtual/workqueue/cpumask", "f\n")
                .file("proc/cmdline", "ro quiet\n")
                .file("sys/devices/system/cpu/nohz_full", "\n")
                .file("sys/devices/system/cpu/isolated", format!("{isolated}\n"))
        };
        for (isolated, audited) in [("", &[0, 1, 2, 3][..]), ("0-1", &[2, 3])] {
            let findings = judge(&settings(&tree(isolated), audited), None);
            assert_eq!((findings[0].name, findings[0].state), ("housekeeping", State::Fix), "{:?}", findings[0]);
            assert!(findings[0].actual.starts_with("no housekeeping core is left"), "{:?}", findings[0]);
            let of = |name| findings.iter().find(|finding| finding.name == name).unwrap();
            for name in ["isolcpus", "managed_irq"] {
                assert_eq!((of(name).state, of(name).fix.as_str()), (State::Fix, NONE_LEFT), "{:?}", of(name));
            }
            if isolated.is_empty() {
                for name in ["workqueue", "nohz_full", "rcu_nocbs"] {
                    assert_eq!((of(name).state, of(name).fix.as_str()), (State::Fix, NONE_LEFT), "{:?}", of(name));
                }
                assert!(findings.iter().all(|finding| !finding.fix.contains("0-3")), "{findings:#?}");
            }
        }
        let findings = judge(&settings(&good(), &[2, 3]), None);
        assert_eq!((findings[0].state, findings[0].actual.as_str()), (State::Ok, "housekeeping cores: 0-1"));
    }
}
