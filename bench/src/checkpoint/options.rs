//! The options of `surefoot-bench checkpoint`.

use super::setup::Saver;
use clap::Args;
use std::path::PathBuf;
use surefoot_console::numbers::{parse_bytes, positive};

/// Ranks that MPI is asked for at most; all of them share this machine.
const RANKS_MAX: i64 = 64;

#[derive(Args)]
pub struct BenchOptions {
    /// Directories to measure: on a memory file system, such as /dev/shm, or on a disk
    #[arg(value_name = "DIR", required_unless_present = "paper")]
    pub directories: Vec<PathBuf>,
    /// Bytes of the checkpoint that is measured [default: 256MB]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub size: Option<f64>,
    /// Run the microbenchmark of MEMSYS'16 with MPI, every policy with every size
    #[arg(long)]
    pub paper: bool,
    /// Rounds; policies take turns in each [default: 9; with --paper 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: Option<u32>,
    /// Ranks, all on this machine [default: as many as it has cores, up to the paper's 8]
    #[arg(long, value_name = "N", requires = "paper", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub ranks: Option<u32>,
    /// Iterations of work and checkpoint
    #[arg(long, value_name = "N", requires = "paper", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub iterations: u64,
    /// Megabytes of each of the paper's 8 processes; the mean of the default is that of the paper's 100 to 1,000
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "paper", default_value = "100,400,700,1000",
          value_parser = positive)]
    pub sizes_mb: Vec<f64>,
    /// Scale bytes and seconds down together, such as 1/50: shares and bytes per second stay
    #[arg(long, value_name = "FACTOR", requires = "paper", default_value = "1/50", value_parser = scale)]
    pub scale: f64,
    /// Megabytes per second that this machine's ranks write to the SSD together
    #[arg(long, value_name = "MB", requires = "paper", default_value = "250", value_parser = positive)]
    pub ssd_mb_s: f64,
    /// How old the durable copy may get, seconds at full size; for surefoot
    #[arg(long, value_name = "S", requires = "paper", default_value = "300", value_parser = positive)]
    pub staleness_s: f64,
    /// Directory for memory checkpoints; the run creates and removes its own directory in it
    #[arg(long, value_name = "DIR", requires = "paper", default_value = "/dev/shm")]
    pub memory: PathBuf,
    /// Directory for durable checkpoints, likewise
    #[arg(long, value_name = "DIR", requires = "paper", default_value = "/var/tmp")]
    pub durable: PathBuf,
    /// Policies: those of simulate, and plain, which writes fresh files [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "paper")]
    pub policies: Vec<Saver>,
    /// The library to link the program with [default: libsurefoot beside this command]
    #[arg(long, value_name = "FILE", requires = "paper")]
    pub library: Option<PathBuf>,
    /// Also write every run as a row of comma-separated values
    #[arg(long, value_name = "FILE", requires = "paper")]
    pub csv: Option<PathBuf>,
    /// Also draw the figures as an SVG picture
    #[arg(long, value_name = "FILE", requires = "paper")]
    pub svg: Option<PathBuf>,
    /// JSON lines instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Reads `1/50` or `0.02`.
fn scale(text: &str) -> Result<f64, String> {
    let (above, below) = text.split_once('/').unwrap_or((text, "1"));
    let factor = positive(above).and_then(|above| positive(below).map(|below| above / below));
    let least = 1e-6;
    match factor {
        Ok(factor) if (least..=1.0).contains(&factor) => Ok(factor),
        _ => Err(format!("'{text}' is not a factor from {least} to 1; write 1/50 or 0.02")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_fractions() {
        assert_eq!((scale("1/50"), scale("0.02"), scale("1")), (Ok(0.02), Ok(0.02), Ok(1.0)));
        for text in ["", "0", "2", "1/0", "50/1", "1/2/3", "-1/5", "nan", "1/inf"] {
            assert!(scale(text).expect_err(text).contains("1/50"), "{text}");
        }
    }
}
