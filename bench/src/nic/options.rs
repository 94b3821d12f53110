//! The options of `surefoot-bench nic`.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use surefoot_nic::measure::{BYTES_MAX, BYTES_MIN};
use surefoot_nic::world::traffic::SLOTS_MAX;

/// More points are no chart any more.
const LIST_MAX: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchClock {
    /// Virtual time: the same figures in each run on any machine
    Virtual,
    /// The machine's clock, all in turn, with UDP and packets over veth beside them
    Wall,
    /// First one, then the other
    Both,
}

#[derive(Args)]
pub struct BenchOptions {
    /// By which clock
    #[arg(long, value_enum, default_value = "both")]
    pub clock: BenchClock,
    /// Lengths of messages, bytes
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "16,64,256,1024,2048,4096,8192,16384,32768",
        value_parser = clap::value_parser!(u32).range(i64::from(BYTES_MIN)..=i64::from(BYTES_MAX))
    )]
    pub sizes: Vec<u32>,
    /// Messages of each length there and back, and as many one way, in each round
    #[arg(long, value_name = "NUMBER", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages: u32,
    /// Messages under way at once one way, in virtual time
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=i64::from(SLOTS_MAX)))]
    pub under_way: u32,
    /// Rounds by the clock, in each of which all take their turn
    #[arg(long, value_name = "NUMBER", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Intervals of the self-test, seconds of virtual time; `none` for no such figure
    #[arg(long, value_name = "SECONDS", value_delimiter = ',', default_value = "0.5,1,2,5")]
    pub self_test: Vec<String>,
    /// Virtual time over which each of these intervals is looked at, seconds
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    pub span: String,
    /// Also draw the figures as SVG pictures in this directory
    #[arg(long, value_name = "DIR")]
    pub charts: Option<PathBuf>,
    /// JSON lines instead of tables
    #[arg(long)]
    pub json: bool,
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    pub is_virtual: bool,
    pub is_wall: bool,
    /// In rising order, each once.
    pub sizes: Vec<u32>,
    pub messages: u32,
    pub under_way: u32,
    pub rounds: u32,
    pub intervals_ns: Vec<u64>,
    pub span_ns: u64,
}

impl BenchOptions {
    /// What no parser of one option sees.
    pub fn setup(&self) -> anyhow::Result<Setup> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        ensure!(sizes.len() <= LIST_MAX, "--sizes: {} lengths are too many: at most {LIST_MAX}", sizes.len());
        let mut intervals_ns = match self.self_test.as_slice() {
            [none] if none == "none" => Vec::new(),
            all => all.iter().map(|text| seconds("--self-test", text)).collect::<anyhow::Result<_>>()?,
        };
        intervals_ns.sort_unstable();
        intervals_ns.dedup();
        ensure!(intervals_ns.len() <= LIST_MAX, "--self-test: at most {LIST_MAX} intervals");
        let span_ns = seconds("--span", &self.span)?;
        if let Some(longest) = intervals_ns.last().filter(|_| self.clock != BenchClock::Wall) {
            ensure!(
                *longest <= span_ns,
                "--self-test: no test would come after the first within --span {}: give a longer one",
                self.span
            );
        }
        Ok(Setup {
            is_virtual: self.clock != BenchClock::Wall,
            is_wall: self.clock != BenchClock::Virtual,
            sizes,
            messages: self.messages,
            under_way: self.under_way,
            rounds: self.rounds,
            intervals_ns,
            span_ns,
        })
    }
}

fn seconds(option: &str, text: &str) -> anyhow::Result<u64> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=1_000.0).contains(seconds));
    let seconds =
        seconds.ok_or_else(|| anyhow::anyhow!("{option}: '{text}' is no number of seconds from 0.01 to 1000"))?;
    Ok((seconds * 1e9).round() as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: BenchOptions,
    }

    fn setup(words: &str) -> Result<Setup, String> {
        let words = ["bench"].into_iter().chain(words.split_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        command.options.setup().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn what_is_to_be_measured_is_in_order_and_each_once() {
        let found = setup("--sizes 2048,64,64 --self-test 5,0.5 --clock virtual").unwrap();
        assert_eq!((found.sizes, found.intervals_ns), (vec![64, 2048], vec![500_000_000, 5_000_000_000]));
        assert_eq!((found.is_virtual, found.is_wall), (true, false));
        assert!(setup("--self-test none").unwrap().intervals_ns.is_empty());
        for (words, why) in [
            ("--sizes 11", "11 is not in 12..=32768"),
            ("--sizes 40000", "40000 is not in"),
            ("--sizes 64,x", "invalid value 'x'"),
            ("--self-test 0", "'0' is no number of seconds"),
            ("--self-test nan", "'nan' is no number"),
            ("--self-test 20", "give a longer one"),
            ("--span -", "--span: '-'"),
            ("--rounds 0", "--rounds"),
            ("--under-way 17", "17 is not in 1..=16"),
        ] {
            let said = setup(words).unwrap_err();
            assert!(said.contains(why), "{words}: {said}");
        }
    }
}
