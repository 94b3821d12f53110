use std::path::PathBuf;
use surefoot_hostfs::Root;

/// Windows kept in memory unless said otherwise: a quarter of an hour of windows of one second.
pub const KEEP_WINDOWS_DEFAULT: usize = 900;

/// Gaps kept in memory unless said otherwise.
pub const KEEP_GAPS_DEFAULT: usize = 2000;

/// Where the events come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// This host, now.
    Live,
    /// A recording. The age of the data is counted from its end.
    Replay {
        /// The recording's name, as the page shows it.
        file: String,
    },
}

/// What a [`Server`](crate::Server) needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The TCP port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// The SQLite file of the history; `None` keeps no history. A replay never writes one.
    pub history: Option<PathBuf>,
    /// Where the events come from.
    pub mode: Mode,
    /// How many windows are kept in memory. A limit of 16 MiB holds as well.
    pub keep_windows: usize,
    /// How many gaps are kept in memory: the newest and the longest. A limit of 4 MiB holds as well.
    pub keep_gaps: usize,
    /// The directory of `health.json`; `None` writes none. A replay never writes one.
    pub run_directory: Option<PathBuf>,
    /// Directories of checkpoints to show: of a tier, of a job, or anything above. A replay shows none.
    pub checkpoints: Vec<PathBuf>,
    /// Where /proc and /run are found.
    pub root: Root,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            port: 0,
            history: None,
            mode: Mode::Live,
            keep_windows: KEEP_WINDOWS_DEFAULT,
            keep_gaps: KEEP_GAPS_DEFAULT,
            run_directory: None,
            checkpoints: Vec::new(),
            root: Root::host(),
        }
    }
}
