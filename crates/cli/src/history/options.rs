//! The command line of `surefoot history`.

use crate::args::{CpuList, cpu_list};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_console::units::parse_time;
use surefoot_model::Room;

/// Where `watch` keeps the history when it runs as root and no other file is named.
pub const FILE_DEFAULT: &str = "/var/lib/surefoot/history.db";

#[derive(Args)]
pub struct HistoryOptions {
    /// Beginning of the range: 2026-11-21T03:00:00Z, '2026-11-21 03:00', 'yesterday 03:00', -2h or now; UTC unless an offset such
    /// as +01:00 follows [default: a day before its end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// End of the range, written in the same ways [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Length of the range instead of --from, such as 24h or 7d
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "from")]
    pub last: Option<Duration>,
    /// The history that `surefoot watch` keeps; nothing is written to it
    #[arg(long, value_name = "FILE", default_value = FILE_DEFAULT)]
    pub file: PathBuf,
    /// Only what this room says: stall, memory, checkpoint, nic, disturb, remedy or watch
    #[arg(long, value_name = "ROOM", value_parser = room)]
    pub room: Option<Room>,
    /// Only lost time and gaps of these cores, such as 1 or 0-3,8
    #[arg(long, alias = "cpus", value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
    /// How many gaps to list, the longest first
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = gap_count)]
    pub gaps: usize,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

fn room(text: &str) -> Result<Room, String> {
    Room::ALL.into_iter().find(|room| room.as_str() == text).ok_or_else(|| {
        let known: Vec<&str> = Room::ALL.iter().map(|room| room.as_str()).collect();
        format!("no room is called '{text}'; the rooms are {}", known.join(", "))
    })
}

fn gap_count(text: &str) -> Result<usize, String> {
    const MAX: usize = surefoot_store::history::GAPS_MAX;
    match text.parse() {
        Ok(count) if count <= MAX => Ok(count),
        _ => Err(format!("'{text}' is not a number of gaps from 0 to {MAX}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::args::Arguments;
    use clap::Parser;

    /// `--duration 1` was taken where `--last 10` was refused. What nobody means in seconds keeps its unit.
    #[test]
    fn one_grammar_of_times_and_rates_holds_in_every_command() {
        let takes = |words: &str| Arguments::try_parse_from(words.split(' ')).is_ok();
        for option in [
            "history --last",
            "watch --interval",
            "why --duration",
            "stall report --duration",
            "nic health --over",
            "nic health --interface eth0 --probe 10.0.0.2 --wait",
            "nic health --recover --grace",
            "memory watch --duration",
            "memory tune --errors poisson:1/s --longest",
            "checkpoint remove --older-than",
            "checkpoint plan --size 1GB --memory-mtbf",
        ] {
            for time in ["10", "10s", "5min", "2h", "1500ms"] {
                assert!(takes(&format!("surefoot {option} {time}")), "{option} {time}");
            }
            for wrong in ["10x", "s", "-1s"] {
                assert!(!takes(&format!("surefoot {option} {wrong}")), "{option} {wrong}");
            }
        }
        assert!(!takes("surefoot watch --min-gap 100") && takes("surefoot watch --min-gap 100us"));
        for rate in [
            "nic health --recover --steps 10/h",
            "nic health --recover --per-hour 10",
            "memory watch --rate 10/h",
            "memory watch --rate 10",
            "stall who --cpu 1 --stacks 100/s",
        ] {
            assert!(takes(&format!("surefoot {rate}")), "{rate}");
        }
        assert!(
            takes("surefoot stall who --cpu 1 --stacks-per-s 100")
                && !takes("surefoot nic health --recover --steps 61/h")
        );
        assert!(takes("surefoot checkpoint simulate --memory-fails 10min..20min"));
        assert!(takes("surefoot checkpoint simulate --memory-fails-s 600..1200"));
    }
}
