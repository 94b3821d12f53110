//! Who raised it: processes that raise interrupts on a core, and what `who` says of them.

mod churn;
pub mod hostile;
mod kinds;
mod odd;
mod quiet;
mod story;
mod truth;
mod vanishing;

use serde_json::Value;
use std::time::{Duration, Instant};
use surefoot_e2e::actor::Program;
use surefoot_e2e::command::{Finished, PATIENCE, Running, surefoot};
use surefoot_e2e::report::{number, of_type};

/// A `surefoot stall who` that watches core 1.
struct Who {
    running: Running,
}

/// Starts watching with these options, as JSON. Returns when it sees what happens.
fn watch(options: &str) -> Who {
    watch_as(&format!("--json {options}"))
}

/// Starts watching with these options and returns when it sees what happens.
fn watch_as(options: &str) -> Who {
    let who = surefoot("stall who --cpu 1 --duration 60s").words(options).going_first();
    let who = if options.contains("--stacks-per-s") { who } else { who.words("--stacks-per-s 100000") };
    let mut running = who.start();
    let deadline = Instant::now() + PATIENCE;
    while !running.stderr().contains("watching") {
        assert!(Instant::now() < deadline && running.is_running(), "who does not begin: {}", running.stderr());
        std::thread::sleep(Duration::from_millis(10));
    }
    Who { running }
}

impl Who {
    /// Ends the watch, which must go well.
    fn stop(self) -> Finished {
        self.running.ask_to_end();
        let finished = self.running.finish();
        finished.expect_code(0);
        finished
    }
}

/// Watches while a program does its work; returns the lines and what the program said of itself.
fn who(program: &Program, words: &str) -> (Vec<Value>, Value) {
    program.path();
    let watch = watch("");
    let mut process = program.start(words);
    let truth = process.answer();
    (watch.stop().json(), truth)
}

/// All raisers of interrupts of this kind.
fn all_raisers<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = of_type(lines, "interrupt").into_iter().filter(|line| line["kind"] == kind);
    of_kind.flat_map(|line| line["raisers"].as_array().unwrap()).collect()
}

/// The raisers in this process of interrupts of this kind.
fn raisers<'a>(lines: &'a [Value], kind: &str, truth: &Value) -> Vec<&'a Value> {
    all_raisers(lines, kind).into_iter().filter(|raiser| raiser["pid"] == truth["pid"]).collect()
}

/// How often these raised something.
fn sum(raisers: &[&Value]) -> u64 {
    raisers.iter().map(|raiser| number(raiser, "count")).sum()
}

/// The frames of a stack.
fn frames<'a>(raiser: &'a Value, stack: &str) -> Vec<&'a str> {
    raiser[stack].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap()).collect()
}

fn has_frame(raiser: &Value, stack: &str, name: &str) -> bool {
    frames(raiser, stack).iter().any(|frame| frame.contains(name))
}

/// Whether advice by this rule is given on an interrupt of this kind, with evidence that says this.
fn is_advised(lines: &[Value], kind: &str, rule: &str, evidence: &str) -> bool {
    let of_kind = of_type(lines, "interrupt").into_iter().filter(|line| line["kind"] == kind);
    of_kind.flat_map(|line| line["advice"].as_array().unwrap()).any(|advice| {
        assert!(["remedy", "source"].iter().all(|field| !advice[field].as_str().unwrap().is_empty()), "{advice}");
        advice["rule"] == rule && advice["evidence"].as_str().unwrap().contains(evidence)
    })
}

/// Holds the exact join to its promise: 99.5 % or more of what arrived from elsewhere.
fn is_joined(lines: &[Value]) {
    let closing = of_type(lines, "who")[0];
    let (joined, called) = (number(closing, "joined_count"), number(closing, "called_count"));
    assert!(joined * 1000 >= called * 995 && joined <= called, "{joined} of {called} joined: {closing}");
    assert_eq!(number(closing, "marks_lost"), 0, "{closing}");
}
