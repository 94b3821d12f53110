//! What watching costs: runs the watch on a tree, a turn a second, and prints the processor time of its thread.
//!
//! `cargo run --release -p surefoot-memory --example watch_cost -- TREE SECONDS`

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_memory::watch::{Settings, Watch};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let tree = PathBuf::from(words.next().ok_or("name a tree")?);
    let seconds: u32 = words.next().ok_or("say how many seconds")?.parse()?;
    let mut watch = Watch::open(&Root::at(&tree), Settings::default());
    watch.turn();
    let (begun, begun_ns) = (Instant::now(), spent_ns()?);
    let mut events = 0;
    for turn in 1..=seconds {
        std::thread::sleep((Duration::from_secs(1) * turn).saturating_sub(begun.elapsed()));
        events += watch.turn().len();
    }
    let spent_ms = (spent_ns()? - begun_ns) as f64 / 1e6;
    println!("{spent_ms:.1} ms of a core in {seconds} s, {events} events");
    Ok(())
}

/// Processor time of this thread, nanoseconds.
fn spent_ns() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().ok_or("the file is empty")?.parse()?)
}
