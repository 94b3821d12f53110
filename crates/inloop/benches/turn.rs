//! What a turn costs beyond the counter read that it cannot do without, and what an ordered read would cost.
//!
//! `cargo bench -p surefoot-inloop --bench turn`; on a free core: `taskset -c 1 cargo bench ...`. The loops take turns
//! in short rounds, so that all of them see the same machine; differences are taken within a round, and the median of
//! all rounds is what counts. The C header is measured the same way in the same rounds where there is a C compiler.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_inloop::{Loop, Options, ticks};

const TURNS: u32 = 20_000;
const ROUNDS: usize = 2_000;

/// The goal for the cost of a turn beyond the counter read, ns.
const GOAL_NS: f64 = 2.0;

/// One line of the table: what is measured, and a round of it.
type Contender<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn main() {
    let directory = tempfile::Builder::new().prefix("surefoot-bench-").tempdir_in("/dev/shm");
    let directory = directory.expect("the bench needs a tmpfs at /dev/shm");
    let options = Options { directory: directory.path().to_owned(), ..Options::new(Duration::from_millis(1)) };
    let mut gaps = Loop::open_with("bench", &options).expect("a new directory takes a loop");
    let mut inert = Loop::inert();
    let mut last = ticks();
    let mut contenders: Vec<Contender> = vec![
        ("counter read alone", Box::new(|| repeat(ticks))),
        ("turn", Box::new(|| repeat(|| black_box(&mut gaps).turn()))),
        ("turn, loop is inert", Box::new(|| repeat(|| black_box(&mut inert).turn()))),
        ("ordered counter read alone", Box::new(|| repeat(ordered_ticks))),
        (
            "turn with the ordered read",
            Box::new(move || {
                repeat(|| {
                    let now = ordered_ticks();
                    let is_gap = now.wrapping_sub(*black_box(&mut last)) > 1 << 40;
                    last = now;
                    is_gap
                });
            }),
        ),
    ];
    let mut rounds: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for _ in 0..ROUNDS {
        for (of, (_, round)) in rounds.iter_mut().zip(&mut contenders) {
            let start = Instant::now();
            round();
            of.push(start.elapsed().as_nanos() as f64 / f64::from(TURNS));
        }
    }
    println!("{:28} {:>10} {:>16} {:>22}", "ns, medians of rounds", "per turn", "beyond the read", "quartiles of that");
    for (number, (name, _)) in contenders.iter().enumerate() {
        let beyond: Vec<f64> = rounds[number].iter().zip(&rounds[0]).map(|(ours, bare)| ours - bare).collect();
        let [low, middle, high] = quartiles(beyond);
        let per_turn = quartiles(rounds[number].clone())[1];
        println!("{name:28} {per_turn:>10.2} {middle:>16.2} {:>22}", format!("{low:.2} to {high:.2}"));
        if name == &"turn" {
            let verdict = if middle <= GOAL_NS { "met" } else { "missed" };
            println!("  goal: {GOAL_NS} ns or less beyond the counter read: {verdict}");
        }
    }
    header_in_c();
}

/// A round: the result of each turn counts as used.
#[inline(always)]
fn repeat<T>(mut turn: impl FnMut() -> T) {
    for _ in 0..TURNS {
        black_box(turn());
    }
}

/// The other choice: the kernel's own ordered read, which waits for all loads before it.
#[inline(always)]
fn ordered_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the fence is part of every x86_64.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier; it touches neither memory nor registers.
    unsafe {
        core::arch::asm!("isb", options(nostack, preserves_flags));
    }
    ticks()
}

fn quartiles(mut of: Vec<f64>) -> [f64; 3] {
    of.sort_by(f64::total_cmp);
    [of[of.len() / 4], of[of.len() / 2], of[of.len() * 3 / 4]]
}

/// The example of the C header measures itself.
fn header_in_c() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/c/example_poller.c");
    let program = std::env::temp_dir().join(format!("surefoot-bench-{}", std::process::id()));
    let built = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).status();
    if built.is_ok_and(|status| status.success()) {
        // The program prints its own line.
        let _ = Command::new(&program).arg("cost").status();
    } else {
        println!("C header: not measured, because there is no working cc");
    }
    let _ = std::fs::remove_file(&program);
}
