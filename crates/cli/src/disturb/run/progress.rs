//! How far an experiment is, on a terminal.

use std::io::IsTerminal;
use std::time::Instant;
use surefoot_console::people::tell;
use surefoot_console::units::duration;
use surefoot_disturb::experiment::Run;

pub struct Progress {
    began: Instant,
    all: u64,
    is_shown: bool,
}

impl Progress {
    pub fn new(all: u64) -> Progress {
        Progress { began: Instant::now(), all, is_shown: std::io::stderr().is_terminal() }
    }

    pub fn done(&mut self, run: &Run) {
        if !self.is_shown {
            return;
        }
        let done = run.number + 1;
        let took_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let left_ns = took_ns / done * (self.all - done.min(self.all));
        let (all, condition, wall) = (self.all, run.condition.name().replace('_', " "), duration(run.wall_ns));
        tell!("run {done} of {all} ({condition}): {wall}; about {} left", duration(left_ns));
    }
}
