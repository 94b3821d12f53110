//! What jobs occupy, for `list` and `remove`.

use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_checkpoint::inspect::Job;
use surefoot_checkpoint::session::journal::{self, JournalEvent};
use surefoot_console::table::Table;
use surefoot_console::words::{moment, size, time};

/// What a job of one user occupies in the directories that were looked at.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "job")]
pub struct JobLine {
    pub job: String,
    pub uid: u32,
    pub directories: Vec<PathBuf>,
    /// Slots, and what ranks keep of others'; room for the next checkpoint is counted.
    pub memory_bytes: u64,
    pub durable_bytes: u64,
    /// Routed files and the journal.
    pub other_bytes: u64,
    /// `null` where there is no checkpoint.
    pub newest_realtime_ns: Option<u64>,
    /// Seconds since the newest checkpoint was taken; negative where its time lies in the future, `null` where there is none.
    pub age_s: Option<f64>,
    /// Whether the newest checkpoint may be older than `age_s`: no manifest of it can be read, and the times of its files stand for
    /// it.
    pub is_age_a_minimum: bool,
    /// Whether a process on this machine holds a lock of it.
    pub is_running: bool,
    /// Whether it was marked as completed.
    pub is_completed: bool,
    /// What the redundancy of its last session does not protect from; empty where it does what it is there for, or none
    /// is set. `null` where no journal says it.
    pub weakness: Option<String>,
}

impl JobLine {
    pub fn of(job: &Job, now_ns: u64) -> Self {
        let [memory_bytes, durable_bytes, other_bytes] = job.bytes();
        let newest_realtime_ns = job.checkpoint_realtime_ns();
        JobLine {
            job: job.name.clone(),
            uid: job.owner,
            directories: job.directories.iter().map(|found| found.path().to_owned()).collect(),
            memory_bytes,
            durable_bytes,
            other_bytes,
            newest_realtime_ns,
            age_s: newest_realtime_ns.map(|newest_ns| (i128::from(now_ns) - i128::from(newest_ns)) as f64 / 1e9),
            is_age_a_minimum: job.is_checkpoint_time_a_bound(),
            is_running: job.is_running(),
            is_completed: job.is_completed(),
            weakness: weakness(job),
        }
    }

    pub fn bytes(&self) -> u64 {
        [self.durable_bytes, self.other_bytes].into_iter().fold(self.memory_bytes, u64::saturating_add)
    }

    fn state(&self) -> &'static str {
        match (self.is_running, self.is_completed) {
            (true, _) => "running",
            (false, true) => "completed",
            (false, false) => "-",
        }
    }

    /// In the middle of a sentence.
    pub fn words(&self) -> String {
        let newest = match self.age_s {
            None => "there is no checkpoint".to_owned(),
            Some(age_s) if self.is_age_a_minimum => {
                format!("the newest checkpoint is at least {} old; its manifest cannot be read", time(age_s.max(0.0)))
            }
            Some(age_s) => format!("the newest checkpoint is {}", moment(age_s)),
        };
        format!(
            "{} in memory, {} on SSD or shared, {} of files; {newest}",
            size(self.memory_bytes as f64),
            size(self.durable_bytes as f64),
            size(self.other_bytes as f64),
        )
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }
}

/// As the newest session of the job says in a journal that its user wrote.
fn weakness(job: &Job) -> Option<String> {
    let read = |path| journal::read_of(path, job.owner, usize::MAX).ok().flatten();
    let entries = job.directories.iter().filter_map(|found| read(found.path())).flat_map(|history| history.entries);
    let opened = entries.filter_map(|entry| match entry.event {
        JournalEvent::Opened { weakness, .. } => Some((entry.realtime_ns, weakness)),
        _ => None,
    });
    opened.max_by_key(|(realtime_ns, _)| *realtime_ns).and_then(|(_, weakness)| weakness)
}

/// `CLOCK_REALTIME`, nanoseconds.
pub fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

pub fn table(lines: &[JobLine]) -> String {
    let header = ["job", "user", "in memory", "SSD or shared", "files", "newest", "state"];
    let mut table = Table::new(&header, &[0, 6]);
    for line in lines {
        table.row(vec![
            line.job.clone(),
            line.uid.to_string(),
            size(line.memory_bytes as f64),
            size(line.durable_bytes as f64),
            size(line.other_bytes as f64),
            match line.age_s {
                None => "-".to_owned(),
                Some(age_s) if age_s < 0.0 => moment(age_s),
                Some(age_s) if line.is_age_a_minimum => format!("at least {}", time(age_s)),
                Some(age_s) => time(age_s),
            },
            line.state().into(),
        ]);
    }
    table.text()
}
