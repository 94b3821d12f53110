//! Other people's tools: whether they are here, and how their answers are read.

use crate::child::output;
use anyhow::Context;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The version that a tool names, or why it cannot be used.
pub fn version(tool: &str) -> Result<String, String> {
    // Every one of them ends with success, except that these two know no such option and print usage with it.
    let option = if matches!(tool, "oslat" | "cyclictest") { "--help" } else { "--version" };
    let said = Command::new(tool).arg(option).output().map_err(|_| format!("{tool} is not installed"))?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().next().unwrap_or(tool).trim().to_owned())
}

/// Fails with the reason when a tool is missing.
pub fn require(tool: &str) -> Result<(), String> {
    version(tool).map(|_| ())
}

/// What `oslat` or `cyclictest` counted: lengths in whole microseconds and how often each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    /// (microseconds, how often), in no order.
    pub histogram: Vec<(u64, u64)>,
    /// The longest, microseconds.
    pub max_us: u64,
    /// Longer ones that their histogram has no place for.
    pub beyond: u64,
}

impl Counted {
    /// How many are this long or longer.
    pub fn at_least(&self, us: u64) -> u64 {
        self.histogram.iter().filter(|(length, _)| *length >= us).map(|(_, count)| count).sum::<u64>() + self.beyond
    }
}

/// Reads the JSON file of one of rt-tests' tools.
pub fn read_rt_tests(path: &Path) -> anyhow::Result<Counted> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse_rt_tests(&text).with_context(|| path.display().to_string())
}

fn parse_rt_tests(text: &str) -> anyhow::Result<Counted> {
    let value: Value = serde_json::from_str(text)?;
    let thread = value.pointer("/thread/0").context("it has no thread 0")?;
    let histogram = thread.get("histogram").and_then(Value::as_object).context("it has no histogram")?;
    let mut counted =
        Counted { max_us: thread.get("max").and_then(Value::as_f64).unwrap_or(0.0) as u64, ..Counted::default() };
    for (length, count) in histogram {
        if let (Ok(length), Some(count)) = (length.parse(), count.as_u64()) {
            counted.histogram.push((length, count));
        }
    }
    counted.beyond = thread.get("overflow").and_then(Value::as_u64).unwrap_or(0);
    Ok(counted)
}

/// Microseconds per operation of `perf bench sched pipe`, run on the cores of the calling thread.
pub fn sched_pipe(operations: u64) -> anyhow::Result<f64> {
    let mut command = Command::new("perf");
    command.args(["bench", "--format", "simple", "sched", "pipe", "--loop", &operations.to_string()]);
    let said = output(&mut command)?;
    let text = String::from_utf8_lossy(&said.stdout);
    // The simple format is the total in seconds and nothing else.
    let seconds: f64 = text.trim().parse().with_context(|| format!("perf bench said '{}'", text.trim()))?;
    Ok(seconds * 1e6 / operations.max(1) as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn answers_of_rt_tests_are_read() {
        let text = r#"{"thread": {"0": {"max": 54038, "avg": 1.0, "histogram": {"1": 700, "9": 3, "1024": 2}}}}"#;
        let counted = parse_rt_tests(text).unwrap();
        assert_eq!((counted.max_us, counted.at_least(9), counted.at_least(10)), (54_038, 5, 2));
        assert!(parse_rt_tests("{}").is_err() && parse_rt_tests("{").is_err());
    }
}
