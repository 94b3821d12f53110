//! How fast the codes are, beside a plain read, a plain copy and other people's libraries, on one core.
//!
//! `taskset -c 1 cargo bench -p surefoot-ecc --bench speed`, with `-- --quick` for fewer rounds, and with
//! `-- --memory` for what is bound by memory alone: check and encode beside a read and a copy, and streams. Contenders take turns,
//! so that all of them see the same machine; a ratio is taken within a round, and the median and the quartiles of all
//! rounds are shown. What counts is processor time of the thread. `measure::all` gives the rows to whoever wants them.

#![allow(missing_docs)]

mod measure;
mod peers;
mod streams;

fn main() {
    // `cargo test --benches` runs this as well: then once is enough to see that it works.
    let is_short = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let is_quick = is_short || !is_bench;
    let mut say = |text: &str| eprintln!("{text}");
    let rows = match std::env::args().any(|argument| argument == "--memory") {
        true => measure::bound_by_memory(is_quick, &mut say),
        false => measure::all(is_quick, &mut say),
    };
    println!("{:46} {:>10} {:>10}  {:24} limit", "", "ours GB/s", "its GB/s", "ratio (quartiles; rounds)");
    for row in &rows {
        println!("{row}");
    }
    let missed = rows.iter().filter(|row| row.is_met() == Some(false)).count();
    println!("{missed} limits missed");
}
