//! `surefoot watch` around a disturbance.

use crate::command::{Finished, PATIENCE, Running, surefoot};
use std::time::Instant;
use surefoot_hostfs::clock;
use surefoot_model::{CauseKind, CoreLedger, CpuId, Event, Lost, Report};

/// A `surefoot watch --json` that has begun to see.
pub struct Watch {
    running: Running,
    events: Vec<Event>,
}

/// Starts watching with these options and returns once the first window is closed: what happens from now on is seen.
pub fn watch(options: &str) -> Watch {
    let running = surefoot("watch --json --no-page --interval 200ms").words(options).start();
    Watch::over(running)
}

impl Watch {
    /// Takes over a `watch --json` that was started otherwise; returns once its first window is closed.
    pub fn over(mut running: Running) -> Watch {
        let first = running.line();
        let first = first.unwrap_or_else(|| panic!("watch ended early: {}", running.stderr()));
        assert!(first.starts_with(r#"{"type":"stream","schema":2,"#), "{first}");
        let mut watch = Watch { running, events: Vec::new() };
        watch.until(|event| matches!(event, Event::Window(_)));
        watch
    }

    /// The run itself.
    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Reads on to the first event that `wanted` takes.
    pub fn until(&mut self, wanted: impl Fn(&Event) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !self.next().is_some_and(&wanted) {
            assert!(Instant::now() < deadline, "what was waited for did not come: {:?}", self.events.last());
        }
    }

    fn next(&mut self) -> Option<&Event> {
        let line = self.running.line();
        let line = line.unwrap_or_else(|| panic!("watch ended early: {}", self.running.stderr()));
        let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.events.push(event);
        self.events.last()
    }

    /// Waits until everything up to this moment is in a window, and one more has closed.
    pub fn catch_up(&mut self) {
        let now_ns = clock::monotonic_ns();
        self.until(|event| matches!(event, Event::Window(window) if window.start_ns > now_ns));
    }

    /// Waits until all of what happened is seen, ends the run, and sums it up.
    pub fn stop(mut self) -> Seen {
        self.catch_up();
        self.running.ask_to_end();
        self.ended()
    }

    /// Waits for the end of a run that was told to end, and sums it up.
    pub fn ended(mut self) -> Seen {
        while let Some(line) = self.running.line() {
            self.events.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}")));
        }
        let finished = self.running.finish();
        finished.expect_code(0);
        Seen { report: Report::of(&self.events), events: self.events, finished }
    }
}

/// What a watch has seen.
pub struct Seen {
    /// All of it, summed up.
    pub report: Report,
    /// All of it, one by one.
    pub events: Vec<Event>,
    /// How the run ended.
    pub finished: Finished,
}

impl Seen {
    /// The ledger of a core, whose parts are held to their sum in every window.
    pub fn core(&self, cpu: u32) -> CoreLedger {
        for event in &self.events {
            if let Event::Window(window) = event {
                window.cores.iter().for_each(|core| assert!(core.sums_up(), "{core:?}"));
            }
        }
        let core = self.report.cores().into_iter().find(|core| core.cpu == CpuId(cpu));
        core.unwrap_or_else(|| panic!("core {cpu} was not watched"))
    }

    /// What a cause took from a core; a row of zeroes when there is none.
    pub fn lost(&self, cpu: u32, kind: CauseKind, name: &str) -> Lost {
        let found = self.core(cpu).lost.into_iter().find(|lost| lost.cause.kind == kind && lost.cause.name == name);
        found.unwrap_or_else(|| Lost::new(surefoot_model::Cause::new(kind, name), 0, 0, 0))
    }
}
