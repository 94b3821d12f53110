use crate::Error;
use crate::http::far::Far;
use crate::http::series::Extent;
use crate::rooms;
use crate::sources::Statistics;
use std::path::PathBuf;
use surefoot_http::listen::Listen;
use surefoot_http::tls::TlsFiles;
pub use surefoot_rooms::moment::{Mode, Stop};

/// Windows kept in memory unless said otherwise: a quarter of an hour of windows of one second.
pub const KEEP_WINDOWS_DEFAULT: usize = 900;

/// Gaps kept in memory unless said otherwise.
pub const KEEP_GAPS_DEFAULT: usize = 2000;

/// Where a server listens beside 127.0.0.1, and who may see what there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listening {
    /// Addresses, which need TLS unless they are this machine's own, and sockets in the file system.
    pub places: Vec<Listen>,
    /// The certificate.
    pub tls: Option<TlsFiles>,
    /// The file with the roles of tokens, certificates and users.
    pub roles: Option<PathBuf>,
}

impl Listening {
    /// Whether a server could listen so, as far as that can be told without opening anything: whether the certificate, its key and the
    /// roles can be used, and whether anybody would be let in.
    ///
    /// # Errors
    /// What is wrong with which file or place.
    pub fn check(&self) -> Result<(), Error> {
        Far::read(self)?;
        Ok(())
    }
}

/// What a [`Server`](crate::Server) needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    /// The TCP port on 127.0.0.1; 0 takes any free one. `None` listens nowhere: no page, no API, no metrics.
    pub port: Option<u16>,
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
    /// What the rooms are told at the start.
    pub rooms: rooms::Options,
    /// Users whose word of their own jobs is taken for the host's in `health.json`, beside root and the daemon's own.
    pub trusted: Vec<u32>,
    /// The group whose members may see everything on the page, beside root and the daemon's own user.
    pub page_group: Option<String>,
    /// Where else it listens.
    pub listen: Listening,
    /// How much a scrape of the metrics tells.
    pub metrics: Extent,
    /// What the sources do whose events are published.
    pub sources: Statistics,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            port: Some(0),
            history: None,
            mode: Mode::Live,
            keep_windows: KEEP_WINDOWS_DEFAULT,
            keep_gaps: KEEP_GAPS_DEFAULT,
            run_directory: None,
            rooms: rooms::Options::default(),
            trusted: Vec::new(),
            page_group: None,
            listen: Listening::default(),
            metrics: Extent::default(),
            sources: Statistics::default(),
        }
    }
}
