use crate::state::{Dropped, Kept};
use crate::verdict::{self, Severity};
use serde::Serialize;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file's name in the run directory.
pub(crate) const FILE_NAME: &str = "health.json";
/// Without a new window for so long, nothing is known about the host any more.
const STALE_NS: u64 = 10_000_000_000;

/// The health of this host in one small file, for other programs on it: the checkpoint controller
/// reads it before each decision. It is replaced as a whole, so that a reader never sees half of it,
/// and removed when the server stops; a reader tells a dead server by an old `updated_realtime_ns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Health {
    /// Of this format.
    version: u32,
    /// `CLOCK_REALTIME` of the writing.
    updated_realtime_ns: u64,
    /// The node name; empty until it is known.
    host: String,
    state: HealthState,
    /// Why the state is not healthy, one sentence each.
    reasons: Vec<String>,
    /// Share of the cores' work time lost in the last minute; `null` without data.
    lost_share_ppm: Option<u64>,
    /// Age of the newest window; `null` without data.
    data_age_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum HealthState {
    Healthy,
    Degraded,
}

/// What the data say about the host's health. `before` are the losses as of the last time, `stale` sentences about
/// durable checkpoints that are too old.
pub(crate) fn decide(kept: &Kept, before: &Dropped, stale: Vec<String>, updated_realtime_ns: u64) -> Health {
    let mut reasons = stale;
    let age_ns = kept.age_ns();
    let current = age_ns.is_some_and(|age_ns| age_ns <= STALE_NS);
    match age_ns {
        None => reasons.push("There is no data yet.".to_owned()),
        Some(age_ns) if !current => {
            reasons.push(format!("The newest data is {} s old.", age_ns / 1_000_000_000));
        }
        Some(_) => {
            let verdict = kept.verdict();
            if verdict.severity == Severity::Serious {
                reasons.push(verdict.sentence);
            }
        }
    }
    if kept.dropped.kernel > before.kernel || kept.dropped.queue > before.queue {
        reasons.push("Events are being dropped; what is shown is incomplete.".to_owned());
    }
    if kept.dropped.history > before.history {
        reasons.push("The history is losing events.".to_owned());
    }
    let lost_share_ppm = if current { verdict::lost_share_ppm(&kept.last_minute()) } else { None };
    Health {
        version: 1,
        updated_realtime_ns,
        host: kept.host.as_ref().map(|host| host.hostname.clone()).unwrap_or_default(),
        state: if reasons.is_empty() { HealthState::Healthy } else { HealthState::Degraded },
        reasons,
        lost_share_ppm,
        data_age_ns: age_ns,
    }
}

/// The file and the name under which it is prepared, which no other process uses.
#[derive(Debug, Clone)]
pub(crate) struct HealthFile {
    path: PathBuf,
    prepared: PathBuf,
}

impl HealthFile {
    /// # Errors
    /// When the directory cannot be written.
    pub(crate) fn in_directory(directory: &Path) -> io::Result<Self> {
        let prepared = directory.join(format!(".{FILE_NAME}.{}", std::process::id()));
        let file = HealthFile { path: directory.join(FILE_NAME), prepared };
        // Found out now, while somebody looks at the terminal.
        fs::write(&file.prepared, [])?;
        fs::remove_file(&file.prepared)?;
        Ok(file)
    }

    /// Replaces the file as a whole. Not forced to the disk: after a crash its content is void anyway.
    pub(crate) fn write(&self, health: &Health) -> io::Result<()> {
        let mut text = serde_json::to_vec(health)?;
        text.push(b'\n');
        let written = fs::File::create(&self.prepared)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&self.prepared, &self.path));
        if written.is_err() {
            // Half a file would be in the way of nobody, but it would stay for ever.
            let _ = fs::remove_file(&self.prepared);
        }
        written
    }

    /// Takes the file away, so that nobody believes in it after the end.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
