//! The options of `surefoot checkpoint`.

use anyhow::Context;
use clap::{ArgGroup, Args, Subcommand};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::config::memory_default;
use surefoot_checkpoint::inspect;
use surefoot_checkpoint::settings::{Settings, Surroundings, read_published};
use surefoot_checkpoint::simulate::{ITERATIONS_MAX, Kind, Outage};
use surefoot_console::numbers::{at_least_one, bytes_or_none, parse_bytes, positive, share};
use surefoot_console::units::{parse_seconds, parse_seconds_or_none};
use surefoot_model::DriveReport;

#[derive(Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of every job and their size.
    List(DirectoriesOptions),
    /// Read every page of every copy, and say which copies are whole, repairable or lost.
    Verify(DirectoriesOptions),
    /// Verify, and repair in place what can be repaired. Refused while the job runs.
    Scrub(DirectoriesOptions),
    /// Write the regions and files of a checkpoint as plain files, all of them or none.
    Restore(RestoreOptions),
    /// Copy the newest complete checkpoint of a dead job from memory to its SSD. Refused while the job runs.
    Drain(DrainOptions),
    /// Remove all files of a job; lists them, and removes them with --yes. Refused while the job runs.
    Remove(RemoveOptions),
    /// Protect files of any program by parity and checksums in FILE.surefoot.
    Protect(ProtectOptions),
    /// Check protected files and repair them.
    Repair(RepairOptions),
    /// Compute what checkpoints will cost, how old the durable copy gets, and when the drive wears out.
    Plan(PlanOptions),
    /// Simulate every policy on the microbenchmark of MEMSYS'16.
    Simulate(SimulateOptions),
    /// Show and check the settings in force, and where each is set.
    Settings(SettingsOptions),
    /// Show how worn the drives are and the source of each number; --write publishes it for jobs.
    Drive(DriveOptions),
}

#[derive(Args)]
pub struct DirectoriesOptions {
    /// Directories of memory and durable tiers, or of jobs in them, such as /dev/shm; durable ones are looked at only where they are named [default: your jobs in memory alone, where the setting memory says, /dev/shm/surefoot-UID]
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Where the jobs of this user are in memory, if nothing else is said on the command line: as the variables, the host's file
/// or the default say.
pub fn own_memory() -> anyhow::Result<PathBuf> {
    let told = Settings::of(&Surroundings::here(), "", memory_default())?.told();
    let memory = told.into_iter().find(|told| told.name == "memory" && told.value != "none");
    let path = memory.map_or_else(memory_default, |told| PathBuf::from(told.value));
    if path == memory_default()
        && let Ok(found) = std::fs::symlink_metadata(&path)
    {
        // Anybody may have put something else there.
        let is_own = found.is_dir() && found.uid() == inspect::own_user();
        anyhow::ensure!(is_own, "{} is no directory of yours, and is not looked at", path.display());
    }
    Ok(path)
}

/// Which job in a directory of memory may have been meant.
fn nearest(memory: &Path, job: &str) -> String {
    let survey = inspect::survey(&[memory.to_owned()]).unwrap_or_default();
    let jobs = inspect::jobs(&survey, &mut |_| {});
    surefoot_model::did_you_mean(job, jobs.iter().map(|job| job.name.as_str()))
}

/// The directories of the durable tiers of a job, the SSD's first: those with which it was opened, as its directory in memory
/// says; else those that one started here would have.
pub fn durable_of(memory: &Path, job: &str) -> anyhow::Result<Vec<PathBuf>> {
    let directory = memory.join(job);
    let is_there = directory.try_exists().with_context(|| format!("{} cannot be looked at", directory.display()))?;
    anyhow::ensure!(
        is_there,
        "no job {job} in {}; --memory DIR names another directory{}",
        memory.display(),
        nearest(memory, job)
    );
    let opened = read_published(&directory)
        .with_context(|| {
            format!("which durable directory {job} uses is not known: name it with --durable DIR; the job's settings cannot be read")
        })?;
    let told = match opened {
        Some(told) => told,
        None => Settings::of(&Surroundings::here(), job, memory)?.told(),
    };
    let of = |name: &str| told.iter().find(|told| told.name == name && told.value != "none");
    Ok(["durable", "shared"].into_iter().filter_map(of).map(|told| PathBuf::from(&told.value)).collect())
}

impl DirectoriesOptions {
    /// The named ones; default: where this user's jobs are in memory, which is said.
    pub fn directories(&self) -> anyhow::Result<Vec<PathBuf>> {
        let own = own_memory()?;
        match self.directories.is_empty() {
            false => Ok(self.directories.clone()),
            true if own.exists() => {
                let shown = own.display();
                surefoot_console::tell!(
                    "surefoot: only {shown} is looked at, your jobs in memory; name the directories of SSDs and shared ones, too"
                );
                Ok(vec![own])
            }
            true => anyhow::bail!(
                "there is no {}, where your jobs would be in memory, and without DIR nothing else is looked at: name the directories of \
                 their tiers, such as that of the SSD",
                own.display()
            ),
        }
    }
}

#[derive(Args)]
pub struct SettingsOptions {
    /// Directories of jobs, or of tiers: show what those jobs were opened with [default: what a job started here would use]
    #[arg(value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// JSON lines instead of a table: one per setting
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct RestoreOptions {
    /// Directories of memory and durable tiers
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// The job
    #[arg(long, value_name = "NAME")]
    pub job: String,
    /// The generation [default: the newest that is intact]
    #[arg(long, value_name = "N")]
    pub generation: Option<u64>,
    /// Only this rank's part [default: the parts of all ranks]
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// The user that the job belongs to [default: you]
    #[arg(long, value_name = "UID")]
    pub user: Option<u32>,
    /// The job of any user, if only one user has a job of this name
    #[arg(long, conflicts_with = "user")]
    pub all_users: bool,
    /// A directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// JSON lines instead of text: one per rank
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DrainOptions {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The directory of its SSD, or of its shared directory [default: the one with which the job was opened; else what the variables or the host's file say]
    #[arg(long, value_name = "DIR")]
    pub durable: Option<PathBuf>,
    /// The directory of its memory [default: /dev/shm/surefoot-UID]
    #[arg(long, value_name = "DIR")]
    pub memory: Option<PathBuf>,
    /// Take the ranks that are in the memory of this node; the others are drained on theirs
    #[arg(long)]
    pub part: bool,
    /// Remove all but the newest N complete checkpoints on that SSD afterwards, at least 1 [default: nothing is removed]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub keep: Option<usize>,
    /// Take a directory in memory (tmpfs, ramfs, a RAM disk) as the SSD, for tests; the copy is reported as not durable
    #[arg(long)]
    pub allow_memory: bool,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct RemoveOptions {
    /// The job [default: with --older-than, every job]
    #[arg(value_name = "JOB", required_unless_present = "older_than")]
    pub job: Option<String>,
    /// Directories of memory and durable tiers [default: /dev/shm/surefoot-UID]
    #[arg(long = "in", value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Only jobs whose newest checkpoint is at least as old as this, such as 12h or 30d
    #[arg(long, value_name = "AGE", value_parser = parse_seconds)]
    pub older_than: Option<f64>,
    /// Do it; without this only show what would be removed
    #[arg(long)]
    pub yes: bool,
    /// As root, jobs of other users, too
    #[arg(long)]
    pub all_users: bool,
    /// JSON lines instead of text: one per job
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ProtectOptions {
    /// Files that no program writes to any more
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Protect the file as it is even if its times and size are unchanged; existing damage is then protected as if it were valid
    #[arg(long)]
    pub force: bool,
    /// As root, write in directories of other users, too: their owners can put other files in the place of these
    #[arg(long)]
    pub trust_directory_owner: bool,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct RepairOptions {
    /// Protected files
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only report damage; change nothing
    #[arg(long, conflicts_with = "force")]
    pub check: bool,
    /// Restore the protected content even if the file was written to since
    #[arg(long)]
    pub force: bool,
    /// As root, write in directories of other users, too: their owners can put other files in the place of these
    #[arg(long, conflicts_with = "check")]
    pub trust_directory_owner: bool,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(group(ArgGroup::new("wear").args(["rated_bytes", "drive"]).multiple(true)))]
pub struct PlanOptions {
    /// Bytes of one checkpoint per node, such as 64GB or 8GiB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub size: f64,
    /// Work between two moments at which a checkpoint is possible
    #[arg(long = "compute", alias = "compute-s", value_name = "TIME", default_value = "1s", value_parser = parse_seconds)]
    pub compute_s: f64,
    /// Time between failures that memory survives: a process that ends [default: as a job's, 1d]
    #[arg(long = "memory-mtbf", alias = "memory-mtbf-s", value_name = "TIME", value_parser = parse_seconds)]
    pub memory_mtbf_s: Option<f64>,
    /// Time between failures that only the SSD survives: loss of power, a restart of the node [default: as a job's, 7d]
    #[arg(long = "durable-mtbf", alias = "durable-mtbf-s", value_name = "TIME", value_parser = parse_seconds)]
    pub durable_mtbf_s: Option<f64>,
    /// A directory on the SSD, or its device: read its wear now; the options below override what is read
    #[arg(long, value_name = "PATH")]
    pub drive: Option<PathBuf>,
    /// Bytes that the drive is rated for, such as 1200TB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub rated_bytes: Option<f64>,
    /// Bytes that were written to it so far [default: as read with --drive, or 0]
    #[arg(long, value_name = "BYTES", value_parser = bytes_or_none, requires = "wear")]
    pub written_bytes: Option<f64>,
    /// Years until the end of its planned life [default: as read with --drive, or 5]
    #[arg(long, value_name = "YEARS", value_parser = positive, requires = "wear")]
    pub remaining_years: Option<f64>,
    /// Speed of copies in memory
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "2.7GB")]
    pub memory_bytes_per_s: f64,
    /// Speed of the SSD
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "250MB")]
    pub durable_bytes_per_s: f64,
    /// Share of the time of a write to the SSD that the program loses: 1 if it waits, less if it only runs slower
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "1")]
    pub waiting_share: f64,
    /// How old the durable copy may get, or none for no bound [default: as a job's, 1h]
    #[arg(long = "staleness-max", alias = "staleness-max-s", value_name = "TIME", value_parser = parse_seconds_or_none)]
    pub staleness_max_s: Option<f64>,
    /// Also draw waste and drive life over the interval as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// JSON lines instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DriveOptions {
    /// Directories, files or devices, such as /srv/checkpoints or /dev/nvme0n1 [default: all drives]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Also publish it for jobs without privilege, in a file that every user may read
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = DriveReport::FILE)]
    pub write: Option<PathBuf>,
    /// JSON lines instead of a table: one per drive
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SimulateOptions {
    /// Sizes of a checkpoint per node
    #[arg(
        long, value_name = "LIST", value_delimiter = ',', value_parser = parse_bytes,
        default_value = "0.1GB,0.2GB,0.4GB,0.8GB,1.6GB,2.4GB,4GB,8GB"
    )]
    pub sizes: Vec<f64>,
    /// Policies, by the names of the setting `policy`: never, memory, durable, paper-every:10, paper-lifetime, paper-performance, paper,
    /// surefoot, which saves in each iteration, surefoot-when-due, which asks whether it pays [default: all]
    ///
    /// never: no checkpoint. memory: always memory. durable: always the SSD. paper-every:10: MEMSYS'16's 9:1,
    /// memory, but every 10th to the SSD alone.
    /// paper-lifetime: MEMSYS'16, the SSD where the drive then lasts its years. paper-performance: the same, and memory where
    /// checkpoints take more than a tenth of the time. paper: the same, and what memory cannot hold is skipped. surefoot: optimal
    /// intervals, a budget from the drive's wear, a bound on the age of the durable copy.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub policy: Vec<Kind>,
    /// Iterations of work and checkpoint
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=ITERATIONS_MAX))]
    pub iterations: u64,
    /// Work in each
    #[arg(long = "compute", alias = "compute-s", value_name = "TIME", default_value = "5s", value_parser = parse_seconds)]
    pub compute_s: f64,
    /// Speed of copies in memory
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "2.7GB")]
    pub memory_bytes_per_s: f64,
    /// Speed of the SSD
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "250MB")]
    pub durable_bytes_per_s: f64,
    /// Bytes that the drive is rated for in five years
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "14.6PB")]
    pub rated_bytes: f64,
    /// The largest checkpoint that fits into memory, for paper
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4GB")]
    pub memory_limit_bytes: f64,
    /// Time of a protected copy over that of a plain copy, for surefoot
    #[arg(long, value_name = "FACTOR", default_value = "1.5", value_parser = positive)]
    pub protection_factor: f64,
    /// Share of the time of a background write to the SSD that the program loses by running slower, for surefoot
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub waiting_share: f64,
    /// Memory that there is for checkpoints [default: enough]
    #[arg(long, value_name = "BYTES", value_parser = bytes_or_none)]
    pub memory_room_bytes: Option<f64>,
    /// Room that the SSD has for checkpoints [default: enough]
    #[arg(long, value_name = "BYTES", value_parser = bytes_or_none)]
    pub durable_room_bytes: Option<f64>,
    /// Period in which memory reports uncorrected errors and is not used, by the time since the start: 10min..20min, or 10min..
    /// up to the end
    #[arg(long = "memory-fails", alias = "memory-fails-s", value_name = "FROM..TO", value_parser = outage)]
    pub memory_fails_s: Option<Outage>,
    /// Period in which writes to the SSD fail, as above
    #[arg(long = "durable-fails", alias = "durable-fails-s", value_name = "FROM..TO", value_parser = outage)]
    pub durable_fails_s: Option<Outage>,
    /// How old the durable copy may get, for surefoot
    #[arg(long = "staleness-max", alias = "staleness-max-s", value_name = "TIME", default_value = "1h", value_parser = parse_seconds)]
    pub staleness_max_s: f64,
    /// Also draw the figures as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// JSON lines instead of tables: one per policy and size
    #[arg(long)]
    pub json: bool,
}

/// Reads `10min..20min` and `10min..`.
fn outage(text: &str) -> Result<Outage, String> {
    let refuse = || format!("'{text}' is no period; write two times since the start, such as 10min..20min or 10min..");
    let (from, to) = text.split_once("..").ok_or_else(refuse)?;
    // The start itself has no unit.
    let time = |text: &str| if matches!(text, "0" | "0s") { Ok(0.0) } else { parse_seconds(text) };
    let from_s = time(from).map_err(|_| refuse())?;
    let to_s = if to.is_empty() { f64::INFINITY } else { time(to).map_err(|_| refuse())? };
    if to_s > from_s { Ok(Outage { from_s, to_s }) } else { Err(format!("'{text}' ends before it begins")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_failures_are_read_and_impossible_ones_are_refused() {
        assert_eq!(outage("600..1200"), Ok(Outage { from_s: 600.0, to_s: 1200.0 }));
        assert_eq!(outage("10min..20min"), outage("600..1200"));
        assert_eq!(outage("0.."), Ok(Outage { from_s: 0.0, to_s: f64::INFINITY }));
        for text in ["", "600", "..", "x..9", "-1..9", "9..8", "nan..", "1e99..", "1..2..3"] {
            assert!(outage(text).is_err(), "{text}");
        }
    }
}
