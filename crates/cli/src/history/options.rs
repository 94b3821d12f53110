//! The command line of `surefoot history`.

use crate::args::{CpuList, cpu_list};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_console::units::parse_duration;
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
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "from")]
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
