//! What a look at the interfaces of this host takes: the first, and the median of those after it, which finds files open and asks not again what goes through each.
#![allow(missing_docs)]

use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_interfaces::look::Looker;

const LOOKS: usize = 101;

fn main() {
    // As the watch does.
    let mut looker = Looker::new(Root::host());
    looker.set_carried_for(Duration::from_secs(60));
    let first = looker.look();
    let mut times: Vec<u64> = (0..LOOKS).map(|_| looker.look().look_ns).collect();
    times.sort_unstable();
    println!(
        "{} interfaces: first look {} us, median of {LOOKS} more {} us, slowest {} us",
        first.interfaces.len(),
        first.look_ns / 1000,
        times[LOOKS / 2] / 1000,
        times[LOOKS - 1] / 1000
    );
}
