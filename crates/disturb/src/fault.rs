//! Why an experiment was refused or failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use surefoot_foreign::said;
use surefoot_model::time_words;

/// Why nothing was disturbed, or why what was begun did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// This host, its kernel or the privilege does not allow it.
    #[error("{why}; {remedy}")]
    Unsupported {
        /// What is missing.
        why: String,
        /// What helps.
        remedy: String,
    },
    /// What was asked for is impossible, or more than is allowed unasked.
    #[error("{0}")]
    Refused(String),
    /// The host looks as if others needed it.
    #[error("this host looks as if it were in use, and a disturbance stops it: {}; {switch}", evidence.join("; "))]
    InUse {
        /// What says so.
        evidence: Vec<String>,
        /// How it is done all the same.
        switch: &'static str,
    },
    /// Another disturber runs.
    #[error(
        "another `surefoot disturb run` ({owner}) runs on this host: two would measure each other; let that one end"
    )]
    Busy {
        /// Which process says that it is it.
        owner: String,
    },
    /// A file or directory could not be used.
    #[error("{}: {}", path.display(), said(source))]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The workload could not be started.
    #[error("the workload cannot be started: {0}")]
    Start(String),
    /// The workload failed.
    #[error("run {run} ({condition}): the workload ended with code {code}{words}")]
    Failed {
        /// Which run, from 0.
        run: u64,
        /// Whether it was disturbed.
        condition: &'static str,
        /// Its exit code; 128 and the signal, where one ended it.
        code: i32,
        /// The end of what it said on standard error, with its own punctuation in front.
        words: String,
    },
    /// The workload did not end.
    #[error(
        "run {run} ({condition}): the workload did not end within {} and was ended; {limited_by} allows more",
        time_words(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    )]
    TimeLimit {
        /// Which run, from 0.
        run: u64,
        /// Whether it was disturbed.
        condition: &'static str,
        /// What was allowed.
        limit: Duration,
        /// The option that allows more.
        limited_by: &'static str,
    },
    /// The workload did not print its metric.
    #[error("run {run}: {why}")]
    Metric {
        /// Which run, from 0.
        run: u64,
        /// What is missing.
        why: String,
    },
    /// Ctrl-C, or another signal.
    #[error("stopped by a signal after {runs} runs; the workload was ended and nothing is disturbed any more")]
    Stopped {
        /// Runs that were complete.
        runs: u64,
    },
    /// What was measured says nothing, or the numbers that were asked for are impossible.
    #[error(transparent)]
    Numbers(#[from] crate::Error),
    /// The programs in the kernel.
    #[error(transparent)]
    Probes(#[from] surefoot_probes::Error),
    /// Reading or changing the host.
    #[error(transparent)]
    Host(#[from] surefoot_hostfs::Error),
}

impl Fault {
    /// Whether another host, kernel or privilege would help.
    pub fn is_unsupported(&self) -> bool {
        match self {
            Fault::Unsupported { .. } => true,
            Fault::Probes(error) => matches!(error, surefoot_probes::Error::Unsupported { .. }),
            _ => false,
        }
    }
}
