//! What the program of the paper's microbenchmark prints: JSON lines, and whether they add up.

use serde::Deserialize;
use surefoot_checkpoint::Error;

/// What one run printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Each iteration, in order.
    pub iterations: Vec<Iteration>,
    /// Each rank's sums.
    pub ranks: Vec<RankSums>,
    /// The run.
    pub run: RunSums,
}

/// One iteration, as the slowest rank saw it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Iteration {
    /// From 1.
    pub number: u64,
    /// Seconds of work.
    pub compute_s: f64,
    /// Seconds in the checkpoint.
    pub checkpoint_s: f64,
    /// Where it went.
    pub place: Went,
    /// How many reasons the decision had.
    pub reason_count: u64,
}

/// Where a checkpoint went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Went {
    /// Nowhere.
    Skip,
    /// Into memory.
    Memory,
    /// Into memory, and to the SSD in the background.
    Both,
    /// To the SSD while the program waited.
    Ssd,
}

/// What a rank added up.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RankSums {
    /// Which.
    pub rank: u32,
    /// Pieces of work done.
    pub pieces: u64,
    /// Seconds of work.
    pub compute_s: f64,
    /// Seconds in checkpoints.
    pub checkpoint_s: f64,
    /// Of these, copying in memory.
    pub memory_s: f64,
    /// Seconds in which this rank wrote to the SSD, in the foreground or behind.
    pub ssd_s: f64,
    /// Seconds in which plain files were removed.
    pub remove_s: f64,
    /// Bytes copied in memory.
    pub memory_bytes: u64,
    /// Bytes to the SSD.
    pub ssd_bytes: u64,
    /// Checkpoints that failed.
    pub failed_count: u64,
}

/// The result of the run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RunSums {
    /// How many ranks there were.
    pub ranks: u32,
    /// Bytes of a rank's buffer.
    pub bytes_per_rank: u64,
    /// How many iterations there were.
    pub iterations: u64,
    /// Seconds from the first to the last.
    pub run_s: f64,
    /// Seconds until the last write to the SSD had ended, after the run.
    pub finish_s: f64,
    /// Iterations without a checkpoint.
    pub skip_count: u64,
    /// Checkpoints in memory only.
    pub memory_count: u64,
    /// Checkpoints in memory and, in the background, on the SSD.
    pub both_count: u64,
    /// Checkpoints on the SSD only.
    pub ssd_count: u64,
    /// Checkpoints that became durable.
    pub durable_count: u64,
    /// The greatest age of the durable copy, seconds; `None` without any.
    pub durable_age_max_s: Option<f64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    Iteration(Iteration),
    Rank(RankSums),
    Run(RunSums),
}

impl Measured {
    /// Reads what the program printed.
    ///
    /// # Errors
    /// [`Error::Group`] for what is no such output, and for sums that do not add up.
    pub fn read(text: &str) -> Result<Self, Error> {
        let refuse = |why: String| Error::Group { why: format!("the microbenchmark said {why}") };
        let (mut iterations, mut ranks, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            let shown: String = line.chars().take(80).collect();
            match serde_json::from_str(line).map_err(|error| refuse(format!("{shown:?}, which is no line: {error}")))? {
                Line::Iteration(iteration) => iterations.push(iteration),
                Line::Rank(rank) => ranks.push(rank),
                Line::Run(run) => runs.push(run),
            }
        }
        let run = runs.pop().filter(|_| runs.is_empty()).ok_or_else(|| refuse("no end, or more than one".into()))?;
        let measured = Measured { iterations, ranks, run };
        measured.adds_up().map_err(|what| refuse(format!("what does not add up: {what}")))?;
        Ok(measured)
    }

    /// Whether counts, bytes and seconds are each other's sums.
    fn adds_up(&self) -> Result<(), String> {
        let run = &self.run;
        let count = |place: Went| self.iterations.iter().filter(|iteration| iteration.place == place).count() as u64;
        for (what, one, other) in [
            ("iterations", run.iterations, self.iterations.len() as u64),
            ("ranks", u64::from(run.ranks), self.ranks.len() as u64),
            ("skipped", run.skip_count, count(Went::Skip)),
            ("memory", run.memory_count, count(Went::Memory)),
            ("both", run.both_count, count(Went::Both)),
            ("SSD", run.ssd_count, count(Went::Ssd)),
        ] {
            if one != other {
                return Err(format!("{what}: {one} and {other}"));
            }
        }
        let failed = self.ranks.iter().map(|rank| rank.failed_count).max().unwrap_or(0);
        let (durable, begun) = (run.durable_count, run.ssd_count + run.both_count);
        if durable > begun || durable + failed < begun {
            return Err(format!("{durable} of {begun} became durable, and {failed} failed"));
        }
        for rank in &self.ranks {
            let memory_bytes = (run.memory_count + run.both_count) * run.bytes_per_rank;
            let ssd_bytes = (run.ssd_count + run.both_count) * run.bytes_per_rank;
            if (rank.memory_bytes, rank.ssd_bytes) != (memory_bytes, ssd_bytes) {
                return Err(format!(
                    "rank {}: {} and {} bytes instead of {memory_bytes} and {ssd_bytes}",
                    rank.rank, rank.memory_bytes, rank.ssd_bytes
                ));
            }
        }
        let parts_s: f64 = self.iterations.iter().map(|iteration| iteration.compute_s + iteration.checkpoint_s).sum();
        // What is between two iterations is a line of output.
        let is_within = (0.5 * run.run_s..=run.run_s + 1e-6).contains(&parts_s);
        if !is_within {
            return Err(format!("{parts_s} s of {} s", run.run_s));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What two ranks of 1,000 bytes print that save into memory, on the SSD, and not at all.
    pub(crate) fn printed() -> String {
        let iteration = |number: u64, checkpoint_s: f64, place: &str| {
            format!(
                "{{\"type\":\"iteration\",\"number\":{number},\"compute_s\":0.1,\"checkpoint_s\":{checkpoint_s},\
                 \"place\":\"{place}\",\"reason_count\":1}}\n"
            )
        };
        let rank = |rank: u32| {
            format!(
                "{{\"type\":\"rank\",\"rank\":{rank},\"pieces\":50,\"compute_s\":0.4,\"checkpoint_s\":0.6,\
                 \"memory_s\":0.2,\"ssd_s\":0.4,\"remove_s\":0,\"memory_bytes\":2000,\"ssd_bytes\":2000,\
                 \"failed_count\":0}}\n"
            )
        };
        let run = "{\"type\":\"run\",\"mode\":\"save\",\"ranks\":2,\"bytes_per_rank\":1000,\"iterations\":4,\
                   \"run_s\":1.0,\"finish_s\":0,\"skip_count\":1,\"memory_count\":1,\"both_count\":1,\"ssd_count\":1,\
                   \"durable_count\":2,\"durable_age_max_s\":0.5}\n";
        [
            iteration(1, 0.1, "memory"),
            iteration(2, 0.4, "ssd"),
            iteration(3, 0.0, "skip"),
            iteration(4, 0.1, "both"),
            rank(0),
            rank(1),
            run.to_owned(),
        ]
        .concat()
    }

    #[test]
    fn what_is_printed_is_read_and_must_add_up() {
        let measured = Measured::read(&printed()).unwrap();
        assert_eq!((measured.run.iterations, measured.ranks.len()), (4, 2));
        assert_eq!(measured.iterations[1].place, Went::Ssd);
        for (good, bad) in [
            ("\"place\":\"ssd\"", "\"place\":\"memory\""),
            ("\"memory_bytes\":2000", "\"memory_bytes\":3000"),
            ("\"iterations\":4", "\"iterations\":5"),
            ("\"ranks\":2", "\"ranks\":3"),
            ("\"run_s\":1.0", "\"run_s\":0.9"),
            ("\"durable_count\":2", "\"durable_count\":1"),
            ("\"type\":\"run\"", "\"type\":\"walk\""),
        ] {
            let text = printed().replacen(good, bad, 1);
            assert_ne!(text, printed());
            assert!(Measured::read(&text).is_err(), "{bad}");
        }
        assert!(Measured::read("").is_err() && Measured::read("mpirun says\n").is_err());
    }
}
