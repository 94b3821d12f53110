//! What a checkpoint in memory costs beside a plain copy of the same bytes, and a restart beside a plain read.
//!
//! `cargo bench -p surefoot-checkpoint --bench save -- [MEGABYTES] [ROUNDS]`; a directory on a memory file system is taken
//! from SUREFOOT_BENCH_MEMORY, /dev/shm by default. Rounds take turns; printed are medians and ratios. The copies, writes and
//! reads beside it have one thread. Bound to a core (`taskset -c 1`) the checkpoint has one as well; else it has its
//! default, a share of all cores, which is printed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let megabytes = numbers.first().copied().unwrap_or(256);
    let rounds = numbers.get(1).copied().unwrap_or(9);
    let base = std::env::var_os("SUREFOOT_BENCH_MEMORY").map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let home = tempfile::tempdir_in(base).expect("a directory for the benchmark");
    let mut bench = Bench::new(home.path(), megabytes << 20);
    let mut times: [Vec<f64>; 6] = Default::default();
    for round in 0..rounds + 1 {
        let measured = bench.round();
        // The first one touches everything for the first time.
        if round > 0 {
            times.iter_mut().zip(measured).for_each(|(times, measured)| times.push(measured));
        }
    }
    let medians = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let [copy, save, fresh, reused, read, restart] = medians;
    let speed = |seconds: f64| (megabytes << 20) as f64 / seconds / 1e9;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{megabytes} MiB, medians of {rounds} rounds, {cores} cores allowed");
    for (name, seconds) in [
        "copy into touched memory",
        "checkpoint in memory",
        "fresh file",
        "file written again",
        "plain read",
        "restart",
    ]
    .into_iter()
    .zip(medians)
    {
        println!("{name:>26} {:8.1} ms {:6.2} GB/s", seconds * 1e3, speed(seconds));
    }
    println!("checkpoint / copy        {:.2}", save / copy);
    println!("fresh file / checkpoint  {:.2}", fresh / save);
    println!("written again / checkpoint {:.2}", reused / save);
    println!("restart's speed / read's {:.2}", read / restart);
}

struct Bench {
    home: PathBuf,
    state: Box<[u8]>,
    copy: Box<[u8]>,
    job: Checkpointer,
}

impl Bench {
    fn new(home: &Path, bytes: usize) -> Self {
        let mut state: Box<[u8]> = (0..bytes).map(|at| ((at * 31) >> 7) as u8).collect();
        let mut config = Config::new("bench", home, None);
        config.policy = Policy::Fixed(Fixed::Memory);
        let mut job = Checkpointer::open(config, Box::new(Alone)).expect("the tier");
        // SAFETY: the box keeps its address, and lives as long as the job.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).expect("a region") };
        Bench { home: home.to_owned(), copy: vec![1; bytes].into_boxed_slice(), state, job }
    }

    /// Seconds of: copy, checkpoint, fresh file, file written again, plain read, restart.
    fn round(&mut self) -> [f64; 6] {
        let copy = timed(|| self.copy.copy_from_slice(&self.state));
        let save = timed(|| drop(self.job.checkpoint().expect("a checkpoint")));
        let path = self.home.join("plain");
        let _ = fs::remove_file(&path);
        let fresh = timed(|| fs::File::create(&path).and_then(|mut file| file.write_all(&self.state)).expect("a file"));
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).expect("the file");
        let reused = timed(|| file.write_all_at(&self.state, 0).expect("a write"));
        let read = timed(|| file.read_exact_at(&mut self.copy, 0).expect("a read"));
        let restart = timed(|| drop(self.job.restart().expect("a restart")));
        [copy, save, fresh, reused, read, restart]
    }
}

fn timed(what: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    what();
    begun.elapsed().as_secs_f64()
}
