//! The options of `surefoot nic run`.

use anyhow::ensure;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use surefoot_nic::live::run::HangAt;
use surefoot_nic::world::traffic::WINDOW_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// Virtual time: the same seed gives the same bytes
    Virtual,
    /// The machine's clock, and a process for each part
    Wall,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Link {
    /// Within one process
    Memory,
    /// UDP on the loopback
    Udp,
    /// A pair of veth devices between two network namespaces (as root)
    Veth,
}

#[derive(Args)]
pub struct RunOptions {
    /// Run interfaces and daemons alone, for programs that open their own ports in the run directory, until Ctrl-C
    #[arg(long, conflicts_with_all = ["messages", "size", "hang_at", "seed", "window"])]
    pub serve: bool,
    /// Messages from node 0 to node 1, 1 to 10000000; each takes some 200 bytes of memory
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub messages: u32,
    /// Bytes of each message, 12 to 65536
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = size)]
    pub size: u32,
    /// Hang an interface after N messages: NUMBER (the receiver's), or NUMBER:0 (the sender's); may be repeated
    #[arg(long, value_name = "NUMBER[:NODE]", value_parser = hang_at)]
    pub hang_at: Vec<HangAt>,
    /// Seed of the content
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Messages under way at once, 1 to 8
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=i64::from(WINDOW_MAX)))]
    pub window: u32,
    /// By which clock [default: virtual; wall with --link udp or veth, or --serve]
    #[arg(long, value_enum)]
    clock: Option<Clock>,
    /// What packets go over
    ///
    /// [default: memory; udp with --clock wall or --serve]
    #[arg(long, value_enum)]
    link: Option<Link>,
    /// The run directory, for `surefoot nic inject`; made, and removed at the end [default: one below /dev/shm]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

impl RunOptions {
    pub fn clock(&self) -> Clock {
        let is_wall = self.serve || !matches!(self.link, None | Some(Link::Memory));
        self.clock.unwrap_or(if is_wall { Clock::Wall } else { Clock::Virtual })
    }

    pub fn link(&self) -> Link {
        self.link.unwrap_or(if self.clock() == Clock::Wall { Link::Udp } else { Link::Memory })
    }

    /// What no parser of one option sees.
    pub fn check(&self) -> anyhow::Result<()> {
        let is_wall = self.clock() == Clock::Wall;
        ensure!(is_wall || !self.serve, "--serve: programs run by the clock: leave out --clock, or use --clock wall");
        ensure!(
            is_wall || self.link() == Link::Memory,
            "--clock virtual has a link within the process: leave out --link, or use --clock wall"
        );
        ensure!(
            !is_wall || self.link() != Link::Memory,
            "--link memory works within one process only, and with the wall clock each part is a process: use --link udp or veth"
        );
        ensure!(
            is_wall || self.run.is_none(),
            "--run names the directory of processes, and in virtual time there are none: add --link udp or veth"
        );
        let last = self.hang_at.iter().map(|hang| hang.count).max().unwrap_or(0);
        ensure!(
            last < self.messages,
            "--hang-at {last} is past the end: with {} messages, use 0 to {}",
            self.messages,
            self.messages - 1
        );
        let twice = self.hangs().windows(2).find(|two| two[0] == two[1]).map(|two| two[0]);
        ensure!(
            twice.is_none(),
            "--hang-at {}:{} is there twice, and an interface that hangs does not hang again; name another number",
            twice.map_or(0, |hang| hang.count),
            twice.map_or(0, |hang| hang.node)
        );
        Ok(())
    }

    /// Failures in the order in which they are made.
    pub fn hangs(&self) -> Vec<HangAt> {
        let mut hangs = self.hang_at.clone();
        hangs.sort_by_key(|hang| (hang.count, hang.node));
        hangs
    }
}

fn size(text: &str) -> Result<u32, String> {
    let bytes = text.parse().map_err(|_| format!("'{text}' is no number; write bytes without a unit, such as 1000"))?;
    match bytes {
        12..=65_536 => Ok(bytes),
        _ => Err(format!("a message has 12 to 65536 bytes, not {bytes}")),
    }
}

fn hang_at(text: &str) -> Result<HangAt, String> {
    let (count, node) = text.split_once(':').unwrap_or((text, "1"));
    let count = count.parse().map_err(|_| format!("'{count}' is not a number of messages"))?;
    match node {
        "0" => Ok(HangAt { count, node: 0 }),
        "1" => Ok(HangAt { count, node: 1 }),
        _ => Err(format!("'{node}' is no node: use 0, which sends, or 1, which receives")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_receiver_unless_it_names_the_sender() {
        assert_eq!(hang_at("10"), Ok(HangAt { count: 10, node: 1 }));
        assert_eq!(hang_at("10:0"), Ok(HangAt { count: 10, node: 0 }));
        assert!(hang_at("10:2").unwrap_err().contains("use 0, which sends"));
        assert!(hang_at("-1").is_err());
    }
}
