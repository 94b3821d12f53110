//! Where an experiment is told of while it goes on: its journal, which a watch reads; a recording; and the page of HTML at its
//! end. One log may be of several experiments, one after the other.

mod journal;

use crate::html;
use journal::Journal;
use std::path::{Path, PathBuf};
use surefoot_console::destination::Destination;
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::{Root, clock, privilege};
use surefoot_model::{
    DisturbEvent, Event, ExperimentBegan, ExperimentEffect, ExperimentEnded, ExperimentOutcome, ExperimentRow,
    ExperimentRun, HostDescription, InjectedStall,
};
use surefoot_rooms::disturb::State;
use surefoot_store::recording::{Existing, Writer};

pub use journal::directory;

/// Stalls of one event: a line of a journal has a limit.
const STALLS_OF_EVENT: usize = 256;

/// Where an experiment is told of.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// A new file for the recording.
    pub record: Option<PathBuf>,
    /// A file for the page of HTML.
    pub html: Option<PathBuf>,
    /// The directory of the journal, in place of the usual one.
    pub journals: Option<PathBuf>,
}

/// What is told, and to whom.
pub struct Log {
    /// Takes messages for the person who asked.
    say: fn(&str),
    directory: Option<PathBuf>,
    journal: Option<Journal>,
    recording: Option<Writer>,
    html: Option<Destination>,
    state: State,
    /// The only experiment was refused before it began.
    is_refused: bool,
    /// The last experiment reported, while it has not ended.
    current: Option<String>,
    count: u32,
    /// What could not be recorded; told at the end, because the experiment goes on.
    broken: Option<anyhow::Error>,
}

impl Log {
    /// Opens what was asked for, before anything is disturbed.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn open(places: &Places, root: &Root, say: fn(&str)) -> anyhow::Result<Log> {
        let html = places.html.as_ref().map(|path| Destination::open("--html", path)).transpose()?;
        let create = |path: &PathBuf| {
            Writer::create(path, Existing::Refuse).map_err(|error| match error {
                surefoot_store::Error::Exists { path } => {
                    anyhow::anyhow!("--record: {} exists already; choose another name", path.display())
                }
                other => anyhow::Error::new(other).context("--record"),
            })
        };
        let mut recording = places.record.as_ref().map(create).transpose()?;
        if let Some(writer) = &mut recording {
            writer.append(&Event::Host(describe(root)))?;
            writer.flush()?;
        }
        if let Some(named) = &places.journals {
            // Only its last part is made: what stands before it may be mistyped.
            let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            anyhow::ensure!(
                parent.is_dir(),
                "--journals {}: there is no directory {}",
                named.display(),
                parent.display()
            );
        }
        let directory = places.journals.clone().or_else(|| directory(root));
        Ok(Log {
            say,
            directory,
            journal: None,
            recording,
            html,
            state: State::default(),
            is_refused: false,
            current: None,
            count: 0,
            broken: None,
        })
    }

    /// An experiment begins; its name, process and times are filled in here.
    pub fn begin(&mut self, began: ExperimentBegan) {
        let (at_ns, at_realtime_ns, pid) = (clock::monotonic_ns(), clock::realtime_ns(), std::process::id());
        let experiment = journal::name(at_realtime_ns, pid, self.count);
        self.count += 1;
        if let Some(directory) = &self.directory {
            let created = Journal::create(directory, &experiment);
            if let Err(error) = &created {
                (self.say)(&format!(
                    "surefoot: a watch does not see this experiment: {}: {error}",
                    directory.display()
                ));
            }
            self.journal = created.ok();
        }
        let uid = Some(privilege::effective_user());
        self.current = Some(experiment.clone());
        self.tell(DisturbEvent::Began(Box::new(ExperimentBegan {
            experiment,
            at_ns,
            at_realtime_ns,
            pid,
            uid,
            ..began
        })));
    }

    /// A run that was complete before this experiment went on; its clock may be that of another start of the host.
    pub fn known(&mut self, run: ExperimentRun) {
        let now_ns = clock::monotonic_ns();
        let wall_ns = run.wall_ns.min(now_ns);
        let start_ns = run.start_ns.min(now_ns - wall_ns);
        self.run(ExperimentRun { start_ns, wall_ns, ..run }, &[]);
    }

    /// A run is complete.
    pub fn run(&mut self, run: ExperimentRun, stalls: &[InjectedStall]) {
        let Some(experiment) = self.current.clone() else { return };
        for part in stalls.chunks(STALLS_OF_EVENT) {
            let stalls = part.to_vec();
            self.tell(DisturbEvent::Stalls { experiment: experiment.clone(), stalls, left_out_count: 0 });
        }
        self.tell(DisturbEvent::Run { experiment, run: Box::new(run) });
    }

    /// What one number of an experiment with several workloads or disturbances came to.
    pub fn row(&mut self, row: ExperimentRow) {
        let Some(experiment) = self.current.clone() else { return };
        self.tell(DisturbEvent::Row { experiment, row: Box::new(row) });
    }

    /// The experiment has finished.
    pub fn finished(&mut self, effect: &ExperimentEffect) {
        let effect = Some(effect.clone().into());
        self.end(ExperimentOutcome::Finished, |ended| ExperimentEnded { effect, ..ended });
    }

    /// One with several workloads or disturbances has finished; its rows have the outcome.
    pub fn rows_finished(&mut self, summary: String, warnings: Vec<String>) {
        self.end(ExperimentOutcome::Finished, |ended| ExperimentEnded { summary, warnings, ..ended });
    }

    /// The experiment went wrong, or was refused before it began: then it is told what would have begun.
    pub fn went_wrong(&mut self, planned: impl FnOnce() -> ExperimentBegan, why: &str) {
        let why = why.to_owned();
        match self.current.is_some() {
            true => self.end(ExperimentOutcome::Failed, |ended| ExperimentEnded { why, ..ended }),
            false => {
                self.begin(planned());
                self.is_refused = self.count == 1;
                self.end(ExperimentOutcome::Refused, |ended| ExperimentEnded { why, ..ended });
            }
        }
    }

    fn end(&mut self, outcome: ExperimentOutcome, told: impl FnOnce(ExperimentEnded) -> ExperimentEnded) {
        let Some(experiment) = self.current.take() else { return };
        let now = (clock::monotonic_ns(), clock::realtime_ns());
        self.tell(DisturbEvent::Ended(told(ExperimentEnded::new(experiment, now, outcome, String::new()))));
        self.journal = None;
    }

    fn tell(&mut self, event: DisturbEvent) {
        if let Some(journal) = &mut self.journal {
            journal.write(&event);
        }
        self.state.take(&event);
        if let Some(writer) = &mut self.recording {
            let written = writer.append(&Event::Disturb(event)).and_then(|()| writer.flush());
            self.broken = self.broken.take().or(written.err().map(Into::into));
        }
    }

    /// Writes what comes at the end.
    ///
    /// # Errors
    /// The recording or the page could not be written.
    pub fn close(self) -> anyhow::Result<()> {
        // What was refused has nothing to record; the same command may be given again.
        if self.is_refused {
            return self.recording.map_or(Ok(()), |writer| Ok(std::fs::remove_file(writer.path())?));
        }
        if let Some(writer) = self.recording {
            let path = writer.path().to_owned();
            let written = writer.finish()?;
            (self.say)(&format!("{} events in {} ({} bytes)", written.events, path.display(), written.bytes));
        }
        if let Some(destination) = self.html {
            let path = destination.path().to_owned();
            html::write(destination, &self.state, &[])?;
            (self.say)(&format!("report in {}", path.display()));
        }
        self.broken.map_or(Ok(()), |error| Err(error.context("the recording is not whole")))
    }
}

/// The host, as a recording begins with it. No core is watched for lost time.
fn describe(root: &Root) -> HostDescription {
    let identity = Identity::read(root);
    HostDescription {
        hostname: identity.hostname,
        kernel: identity.kernel,
        processor: identity.processor,
        vendor: identity.vendor,
        hypervisor: identity.hypervisor,
        cpus: Vec::new(),
        workload: String::new(),
        gap_threshold_ns: 0,
        source: "experiments".into(),
        missing: String::new(),
        realtime_offset_ns: clock::realtime_offset_ns(),
    }
}
