//! Reads how many tests passed, failed and were left out from what the test runners print.

use std::collections::BTreeMap;

/// The tests of one or more runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// What a runner has said so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub counts: Counts,
    /// Tests that are marked as ignored, with the reason of the mark.
    pub ignored: BTreeMap<String, String>,
    /// Tests that failed, by name.
    pub failed: Vec<String>,
    /// Whether a summary has come; without one the counts mean nothing.
    pub summed_up: bool,
    /// Ignored tests that a summary counts although another test runs them.
    pub parts_of_others: u64,
}

/// How the reason of an ignored test begins that another test starts in a process of its own: it does run.
const PART_OF_ANOTHER: &str = "runs in a child process";

impl Said {
    /// Reads one line of a runner's output; a line that says nothing about counts changes nothing.
    pub fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(mut counts) = cargo_result(line) {
            counts.skipped = counts.skipped.saturating_sub(std::mem::take(&mut self.parts_of_others));
            self.counts.add(counts);
            self.summed_up = true;
        } else if let Some((name, reason)) = cargo_ignored(line) {
            if reason.starts_with(PART_OF_ANOTHER) {
                self.parts_of_others += 1;
            } else {
                self.ignored.insert(name.to_owned(), reason.to_owned());
            }
        } else if let Some(name) = cargo_failed(line).or_else(|| node_failed(line)) {
            if !self.failed.iter().any(|failed| failed == name) {
                self.failed.push(name.to_owned());
            }
        } else if let Some(rest) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            self.read_node(rest);
        }
    }

    /// The summary of `node --test`, one number per line.
    fn read_node(&mut self, line: &str) {
        let Some((word, number)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        match word {
            "pass" => self.counts.passed += number,
            "fail" | "cancelled" => self.counts.failed += number,
            "skipped" | "todo" => self.counts.skipped += number,
            _ => return,
        }
        self.summed_up = true;
    }
}

/// `test NAME ... ignored` or `test NAME ... ignored, REASON`
fn cargo_ignored(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    match rest.strip_prefix(", ") {
        Some(reason) => Some((name, reason)),
        None => rest.is_empty().then_some((name, "marked as ignored")),
    }
}

/// The name in the line that says how a test ended: `test NAME ... ok`.
pub fn ended_test(line: &str) -> Option<&str> {
    let (name, rest) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    (rest.ends_with("ok") || rest.ends_with("FAILED")).then_some(name)
}

/// `test NAME ... FAILED`; what the test itself prints may stand between.
fn cargo_failed(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.ends_with("FAILED").then_some(name)
}

/// `not ok 3 - NAME` or `✖ NAME (1.5ms)`; the latter's headings and repetitions are no names of tests.
fn node_failed(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("not ok ") {
        return Some(rest.split_once(" - ")?.1);
    }
    let rest = line.strip_prefix("✖ ")?;
    Some(rest.rsplit_once(" (")?.0)
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn cargo_result(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    let number = |word: &str| {
        let part = rest.split("; ").find_map(|part| part.strip_suffix(word));
        part.and_then(|number| number.trim().parse().ok())
    };
    Some(Counts { passed: number("passed")?, failed: number("failed")?, skipped: number("ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        let mut said = Said::default();
        text.lines().for_each(|line| said.read(line));
        said
    }

    fn read(text: &str) -> Counts {
        said(text).counts
    }

    #[test]
    fn results_of_cargo_test_are_summed_over_binaries() {
        let text = "running 4 tests\ntest a ... ok\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.20s\n";
        assert_eq!(read(text), Counts { passed: 8, failed: 2, skipped: 1 });
    }

    #[test]
    fn results_of_node_are_read_in_both_of_its_formats() {
        let tap =
            "# tests 9\n# suites 0\n# pass 4\n# fail 2\n# cancelled 1\n# skipped 1\n# todo 1\n# duration_ms 5.2\n";
        assert_eq!(read(tap), Counts { passed: 4, failed: 3, skipped: 2 });
        assert_eq!(read(&tap.replace("# ", "ℹ ")), Counts { passed: 4, failed: 3, skipped: 2 });
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in ["test result: who knows", "test result: ok. x passed; 0 failed; 0 ignored", "# pass", "pass 3"] {
            assert_eq!(said(line), Said::default(), "{line}");
        }
        assert!(said("# pass 0").summed_up);
    }

    #[test]
    fn failed_tests_are_named_once() {
        let said = said(
            "test a::b ... FAILED\ntest c ... ok\ntest d ... some words FAILED\nnot ok 3 - the page fits\n\
            ✖ a card has a title (1.5ms)\n✖ failing tests:\n\n✖ a card has a title (1.5ms)\ntest e ... FAILED or so\n",
        );
        assert_eq!(said.failed, ["a::b", "d", "the page fits", "a card has a title"]);
    }

    #[test]
    fn ignored_tests_are_named_and_parts_of_others_are_no_tests() {
        let said = said(
            "test a::b ... ignored, no such kernel\ntest c ... ignored\ntest d ... ok\n\
            test e ... ignored, runs in a child process\n\
            test result: ok. 1 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(said.counts, Counts { passed: 1, failed: 0, skipped: 2 });
        let ignored: Vec<_> = said.ignored.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
        assert_eq!(ignored, [("a::b", "no such kernel"), ("c", "marked as ignored")]);
    }
}
