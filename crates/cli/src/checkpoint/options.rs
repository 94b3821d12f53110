//! The options of `surefoot checkpoint`.

use super::bench::options::BenchOptions;
use clap::{ArgGroup, Args, Subcommand};
use std::path::PathBuf;
use surefoot_checkpoint::simulate::{ITERATIONS_MAX, Kind};
use surefoot_model::DriveReport;

#[derive(Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of every job below these directories.
    List(DirectoriesOptions),
    /// Read every page of every copy, and say which copies are whole, repairable or lost.
    Verify(DirectoriesOptions),
    /// Verify, and repair in place what can be repaired. Refused while the job runs.
    Scrub(DirectoriesOptions),
    /// Write the regions and files of a checkpoint as plain files, all of them or none.
    Restore(RestoreOptions),
    /// Protect files of any program by parity and checksums in FILE.surefoot.
    Protect(ProtectOptions),
    /// Check protected files and repair them.
    Repair(RepairOptions),
    /// Compute what checkpoints will cost, how old the durable copy gets, and when the drive wears out.
    Plan(PlanOptions),
    /// Simulate every policy on the microbenchmark of MEMSYS'16.
    Simulate(SimulateOptions),
    /// Show how worn the drives are and the source of each number; --write publishes it for jobs.
    Drive(DriveOptions),
    /// Measure this machine's tiers; with --paper run the microbenchmark of MEMSYS'16 with every policy.
    Bench(BenchOptions),
}

#[derive(Args)]
pub struct DirectoriesOptions {
    /// Directories of memory and durable tiers, or of jobs in them, such as /dev/shm
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// JSON lines instead of a table
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
    /// Only this rank's part [default: all ranks']
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// A directory, which must not exist yet
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// JSON lines instead of text: one per rank
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ProtectOptions {
    /// Files that no program writes to any more
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Protect again even if the file was not written to since; damage since then becomes its content
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
    /// Seconds of work between two moments at which a checkpoint is possible
    #[arg(long, value_name = "S", default_value = "1", value_parser = positive)]
    pub compute_s: f64,
    /// Seconds between failures that memory survives: a process that ends
    #[arg(long, value_name = "S", value_parser = positive)]
    pub memory_mtbf_s: f64,
    /// Seconds between failures that only the SSD survives: loss of power, a restart of the node
    #[arg(long, value_name = "S", value_parser = positive)]
    pub durable_mtbf_s: f64,
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
    /// The share of a write to the SSD for which the program waits: 1 where it stops, less in the background
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "1")]
    pub waiting_share: f64,
    /// How old the durable copy may get
    #[arg(long, value_name = "S", value_parser = positive)]
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
    /// Policies: none, memory, ssd, every-10th, lifetime, lifetime-performance, size-limited, surefoot,
    /// surefoot-when-due [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub policy: Vec<Kind>,
    /// Iterations of work and checkpoint
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=ITERATIONS_MAX))]
    pub iterations: u64,
    /// Seconds of work in each
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive)]
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
    /// The largest checkpoint that fits into memory, for size-limited
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4GB")]
    pub memory_limit_bytes: f64,
    /// Time of a protected copy over that of a plain copy, for surefoot
    #[arg(long, value_name = "FACTOR", default_value = "1.5", value_parser = positive)]
    pub protection_factor: f64,
    /// The share of a background write to the SSD for which the program waits, for surefoot
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub waiting_share: f64,
    /// How old the durable copy may get, for surefoot
    #[arg(long, value_name = "S", default_value = "3600", value_parser = positive)]
    pub staleness_max_s: f64,
    /// Also draw the figures as an SVG picture
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,
    /// JSON lines instead of tables: one per policy and size
    #[arg(long)]
    pub json: bool,
}

/// Beyond this nothing is a size or a time any more, and sums stay finite.
const NUMBER_MAX: f64 = 1e21;

pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    match number > 0.0 && number <= NUMBER_MAX {
        true => Ok(number),
        false => Err(format!("'{text}' is not above 0 and up to {NUMBER_MAX:e}")),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(format!("'{text}' is outside 0 to 1")) }
}

fn bytes_or_none(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { parse_bytes(text) }
}

/// Reads `500`, `64e9`, `64GB`, `8GiB`, `14.6PB`.
pub(super) fn parse_bytes(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 12] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("PiB", 1_125_899_906_842_624.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("PB", 1e15),
        ("B", 1.0),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((text, &1.0));
    let form = "write bytes or a number and a unit, such as 64GB, 8GiB or 14.6PB";
    let number = number.trim_end();
    let bytes = positive(number).map_err(|_| format!("'{text}' is not a size; {form}"))? * factor;
    if bytes <= NUMBER_MAX { Ok(bytes) } else { Err(format!("'{text}' is more than can be planned; {form}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in
            [("500", 500.0), ("64e9", 64e9), ("64GB", 64e9), ("1.5 MiB", 1_572_864.0), ("14.6PB", 14.6e15)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["", "GB", "-1", "0", "nan", "inf", "1e300", "1e20TB", "5XB", "5 G"] {
            assert!(parse_bytes(text).expect_err(text).contains("such as 64GB"), "{text}");
        }
        assert!(positive("0").is_err() && share("1.1").is_err() && share("0.3").is_ok() && bytes_or_none("0").is_ok());
    }
}
