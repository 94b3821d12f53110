//! The options of `surefoot nic health`.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use surefoot_console::units;
use surefoot_interfaces::decide::Policy;
use surefoot_interfaces::judge::Limits;
use surefoot_interfaces::probe::{COUNT_MAX, Round};
use surefoot_interfaces::self_test;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestMode {
    /// The parts that run beside traffic
    Online,
    /// All parts; the interface is out of service while they run
    Offline,
}

#[derive(Args)]
pub struct HealthOptions {
    /// Check only this interface
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Probe this neighbour through --interface: the hardware address of one that runs `surefoot nic health --answer`, an IP address
    /// (ICMP echo), or arp: and an IPv4 address
    #[arg(long, value_name = "PEER", requires = "interface")]
    pub probe: Option<String>,
    /// Probes per round, up to 10000 [default: 20]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)))]
    count: Option<u32>,
    /// Time between two probes [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    every: Option<Duration>,
    /// Timeout of a probe [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    wait: Option<Duration>,
    /// Call the interface slow above this median round trip [default: 3 times the usual plus 0.2 ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_ns)]
    slow_over: Option<u64>,
    /// File with the usual round trips; created if missing
    #[arg(long, value_name = "FILE", requires = "probe")]
    pub baseline: Option<PathBuf>,
    /// Run the driver's self-test
    #[arg(long, value_enum, value_name = "PARTS", requires = "interface", conflicts_with_all = ["watch", "host_root"])]
    self_test: Option<TestMode>,
    /// Keep checking and print changes
    #[arg(long)]
    pub watch: bool,
    /// Interval of --watch [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    period: Option<Duration>,
    /// Stop --watch after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub duration: Option<Duration>,
    /// Without --watch and --probe: watch the counters for this time [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    over: Option<Duration>,
    /// Show the recovery steps for a hung interface: recover by its health reporter, take the link down and up, reset the
    /// PCI function
    #[arg(long, conflicts_with = "host_root")]
    pub recover: bool,
    /// Run the steps
    #[arg(long, requires = "recover")]
    pub yes: bool,
    /// Also recover an interface that carries a route beyond its own network or an SSH session, and allow an offline self-test of one that is up
    #[arg(long)]
    pub even_in_use: bool,
    /// Also recover an interface that is hung only probably: by unanswered probes, or by a health reporter alone
    #[arg(long, requires = "recover")]
    even_if_probable: bool,
    /// Recovery steps per interface, up to 60/h [default: 3/h]
    #[arg(long = "steps", alias = "per-hour", value_name = "RATE", value_parser = steps_per_hour)]
    per_hour: Option<u32>,
    /// Minimum time between two recovery steps of an interface [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_ns)]
    grace: Option<u64>,
    /// Journal of recovery steps; --steps and --grace count the steps in it [default: /var/lib/surefoot/deeds.jsonl]
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Only answer the probes that arrive at this interface
    #[arg(long, value_name = "NAME", conflicts_with_all = ["interface", "watch", "recover", "host_root"])]
    pub answer: Option<String>,
    /// Delay each answer, to see how a slow interface is reported
    #[arg(long, value_name = "TIME", requires = "answer", value_parser = units::parse_time)]
    pub answer_delay: Option<Duration>,
    /// A recorded tree with proc and sys instead of this host
    #[arg(long, value_name = "DIR", conflicts_with = "probe")]
    pub host_root: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The longest round, the longest wait, the longest delay.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// A whole number in an hour; a number alone, as before, is one.
fn steps_per_hour(text: &str) -> Result<u32, String> {
    let steps = units::parse_whole_rate(text, units::Per::Hour)?;
    let possible = u32::try_from(steps).ok().filter(|steps| (1..=60).contains(steps));
    possible.ok_or_else(|| format!("'{text}' is not from 1/h to 60/h"))
}

impl HealthOptions {
    /// What no parser of one option sees.
    pub fn check(&self) -> anyhow::Result<()> {
        let round = self.round();
        let (every, delay) = (round.every.saturating_mul(round.count), self.answer_delay.unwrap_or_default());
        for (option, time) in
            [("--every", every), ("--wait", round.wait), ("--over", self.over()), ("--answer-delay", delay)]
        {
            ensure!(time <= TIME_MAX, "{option}: {} s in all are over an hour", time.as_secs());
        }
        // The parser waives what an option needs where that would conflict with another one.
        let of_a_probe = "it is of probes: add --probe, which names a neighbour";
        let of_a_watch = "it is of --watch, which is not given";
        let of_recovery = "it is of --recover, which is not given";
        for (option, is_given, is_of_use, why) in [
            ("--count", self.count.is_some(), self.probe.is_some(), of_a_probe),
            ("--every", self.every.is_some(), self.probe.is_some(), of_a_probe),
            ("--wait", self.wait.is_some(), self.probe.is_some(), of_a_probe),
            ("--slow-over", self.slow_over.is_some(), self.probe.is_some(), of_a_probe),
            ("--period", self.period.is_some(), self.watch, of_a_watch),
            ("--duration", self.duration.is_some(), self.watch, of_a_watch),
            (
                "--over",
                self.over.is_some(),
                !self.watch,
                "it is of one look, and --watch compares with a minute before",
            ),
            (
                "--over",
                self.over.is_some(),
                self.host_root.is_none(),
                "a recorded tree does not change, so there is nothing to compare over a time",
            ),
            (
                "--answer-delay",
                self.answer_delay.is_some(),
                self.answer.is_some(),
                "it is of --answer, which is not given",
            ),
            ("--steps", self.per_hour.is_some(), self.recover, of_recovery),
            ("--grace", self.grace.is_some(), self.recover, of_recovery),
            ("--journal", self.journal.is_some(), self.recover, of_recovery),
            (
                "--even-in-use",
                self.even_in_use,
                self.recover || self.self_test.is_some(),
                "it needs --recover or --self-test",
            ),
        ] {
            ensure!(!is_given || is_of_use, "{option}: {why}");
        }
        for (option, is_given) in [("--yes", self.yes), ("--even-if-probable", self.even_if_probable)] {
            ensure!(!is_given || self.recover, "{option}: it says how to --recover, which is not given");
        }
        ensure!(
            self.baseline.is_none() || self.probe.is_some(),
            "--baseline: it is of a neighbour, which --probe names"
        );
        Ok(())
    }

    /// The neighbour that is probed, and through which interface.
    pub fn probed(&self) -> Option<(&str, &str)> {
        self.interface.as_deref().zip(self.probe.as_deref())
    }

    pub fn round(&self) -> Round {
        Round {
            count: self.count.unwrap_or(20),
            every: self.every.unwrap_or(Duration::from_millis(10)),
            wait: self.wait.unwrap_or(Duration::from_secs(1)),
        }
    }

    pub fn over(&self) -> Duration {
        self.over.unwrap_or(Duration::from_secs(1))
    }

    pub fn period(&self) -> Duration {
        self.period.unwrap_or(Duration::from_secs(10))
    }

    pub fn limits(&self) -> Limits {
        Limits { slow_over_ns: self.slow_over, ..Limits::default() }
    }

    pub fn policy(&self) -> Policy {
        let usual = Policy::default();
        let (per_hour, grace_ns) = (self.per_hour.unwrap_or(usual.per_hour), self.grace.unwrap_or(usual.grace_ns));
        let (even_in_use, even_if_probable) = (self.even_in_use, self.even_if_probable);
        Policy { per_hour, grace_ns, even_in_use, even_if_probable, ..usual }
    }

    pub fn self_test(&self) -> Option<self_test::Mode> {
        self.self_test.map(|mode| match mode {
            TestMode::Online => self_test::Mode::Online,
            TestMode::Offline => self_test::Mode::Offline,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: HealthOptions,
    }

    #[test]
    fn times_that_no_clock_counts_are_refused_by_name() {
        let most = "213503982334601d";
        for words in [["--every", most], ["--wait", most], ["--over", most], ["--every", "200s"]] {
            let command = Command::try_parse_from([&["health"][..], &words].concat()).unwrap();
            let error = command.options.check().unwrap_err().to_string();
            assert!(error.starts_with(words[0]), "{error}");
        }
        let late = Command::try_parse_from(["health", "--answer", "lo", "--answer-delay", most]).unwrap();
        assert!(super::super::run(&late.options).unwrap_err().to_string().starts_with("--answer-delay"));
        let recorded = Command::try_parse_from(["health", "--host-root", "/", "--over", "2s"]).unwrap();
        let error = super::super::run(&recorded.options).unwrap_err().to_string();
        assert!(error.starts_with("--over: a recorded tree does not change"), "{error}");
    }
}
