//! Reads how many tests passed, failed and were left out from what the test runners print.

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

    /// Reads one line of a runner's output; a line that says nothing about counts changes nothing.
    pub fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(counts) = cargo_result(line) {
            self.add(counts);
        } else if let Some(rest) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            self.read_node(rest);
        }
    }

    /// The summary of `node --test`, one number per line.
    fn read_node(&mut self, line: &str) {
        let Some((word, number)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        match word {
            "pass" => self.passed += number,
            "fail" | "cancelled" => self.failed += number,
            "skipped" | "todo" => self.skipped += number,
            _ => {}
        }
    }
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

    fn read(text: &str) -> Counts {
        let mut counts = Counts::default();
        text.lines().for_each(|line| counts.read(line));
        counts
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
            assert_eq!(read(line), Counts::default(), "{line}");
        }
    }
}
