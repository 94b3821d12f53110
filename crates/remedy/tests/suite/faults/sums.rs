//! How often what happened in the runs: a run in which nothing did would prove nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What is counted, in the order of the table.
const NAMES: &[&str] = &[
    "case",
    "step that had its effect",
    "controller killed between steps",
    "controller killed when a step was written as begun",
    "controller killed before a step's effect",
    "controller killed after a step's effect, before its end was written",
    "store cut off or losing answers",
    "store cut off from a step until its lease ran out",
    "attempt broken off because its lease was lost",
    "attempt in doubt taken over, effect found",
    "attempt in doubt taken over, no effect found",
    "host vanished or came back",
    "attempt longer than a lease (a controller of a host hangs)",
    "alert told again",
    "alert told out of order",
    "run with several controllers that race",
    "clock jump",
    "setting put back",
    "setting put back by a step of the policy",
    "look of people at a case that waits for one",
    "case returned",
    "case cleared",
    "case cancelled",
];

/// See the [module](self).
#[derive(Debug, Default, Clone)]
pub struct Sums(BTreeMap<&'static str, u64>);

impl Sums {
    /// Counts one of these.
    pub fn count(&mut self, name: &'static str) {
        assert!(NAMES.contains(&name), "{name}");
        *self.0.entry(name).or_default() += 1;
    }

    pub fn add(&mut self, other: &Sums) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// What never happened.
    pub fn missing(&self) -> Vec<&'static str> {
        NAMES.iter().copied().filter(|name| !self.0.contains_key(name)).collect()
    }

    /// A table in Markdown.
    pub fn table(&self) -> String {
        let mut text = String::from("| what happened | how often |\n|---|---|\n");
        for name in NAMES {
            let _ = writeln!(text, "| {name} | {} |", self.0.get(name).copied().unwrap_or(0));
        }
        text
    }
}
