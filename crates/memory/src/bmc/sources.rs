//! The management controllers that somebody named, asked once or again and again.

use super::event_log::{self, Controller};
use super::{Answer, Counted, MODULES_MAX, join, redfish};
use crate::counted;
use crate::import::{self, Clock, Format, Import};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use surefoot_hostfs::clock;
use surefoot_model::{ErrorReport, ErrorSeverity, MemoryLook, MemoryProblem, MemorySource};

/// How often a watch asks. A management controller is a slow computer with other work.
pub const PERIOD: Duration = Duration::from_secs(60);

/// Which management controllers are asked, and for how long at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// A Redfish service.
    pub redfish: Option<redfish::Service>,
    /// An event log.
    pub event_log: Option<Controller>,
    /// How long each may take to answer one of its questions.
    pub patience: Duration,
}

/// What one source answered.
pub type Answered = (MemorySource, Answer);

impl Sources {
    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        self.redfish.is_some() || self.event_log.is_some()
    }

    /// Asks all of them, beside each other: one that hangs holds up no other.
    pub fn ask(&self) -> Vec<Answered> {
        thread::scope(|scope| {
            let redfish = self.redfish.as_ref().map(|service| scope.spawn(|| redfish::look(service)));
            let log = self.event_log.as_ref().map(|of| scope.spawn(|| look(of, self.patience)));
            let asked = [(MemorySource::Redfish, redfish), (MemorySource::EventLog, log)];
            let answered = asked.into_iter().filter_map(|(source, asked)| Some((source, asked?.join())));
            answered.map(|(source, answer)| (source, answer.unwrap_or_else(|_| broken(source)))).collect()
        })
    }
}

/// What one answers whose asking has failed in itself.
fn broken(source: MemorySource) -> Answer {
    let why = "asking it failed in surefoot itself; please report that".to_owned();
    Answer { problems: vec![MemoryProblem { source, path: "management controller".into(), why }], ..Answer::default() }
}

/// Lays all answers beside a look.
pub fn join_all(look: &mut MemoryLook, answers: &[Answered]) {
    for (source, answer) in answers {
        join(look, answer.clone(), *source);
    }
}

/// The errors of each module that an event log names.
pub fn look(controller: &Controller, patience: Duration) -> Answer {
    match event_log::list(controller, patience) {
        Ok(text) => counts(&text, &controller.name()),
        Err(problem) => Answer { problems: vec![problem], ..Answer::default() },
    }
}

/// The modules of a list that ipmitool printed.
fn counts(text: &str, name: &str) -> Answer {
    let mut import =
        Import::new(Format::Sel, Clock { now_realtime_ns: clock::realtime_ns(), booted_realtime_ns: None });
    let mut reports = Vec::new();
    text.lines().for_each(|line| import.line(line, &mut reports));
    let totals = import.end(&mut reports);
    let mut modules: BTreeMap<String, Counted> = BTreeMap::new();
    let mut unnamed = 0_u64;
    for report in &reports {
        let count = u64::from(report.count);
        if report.label.is_empty() || modules.len() == MODULES_MAX && !modules.contains_key(&report.label) {
            unnamed = unnamed.saturating_add(count);
            continue;
        }
        let module = modules.entry(report.label.clone()).or_insert_with(|| Counted {
            label: report.label.clone(),
            corrected: Some(0),
            uncorrected: Some(0),
            ..Counted::default()
        });
        let counter = counter_of(module, report);
        *counter = Some(counter.unwrap_or(0).saturating_add(count));
    }
    // ipmitool was asked with TZ=UTC.
    let mut whys: Vec<String> = totals.notes.into_iter().filter(|note| note != import::NO_ZONE).collect();
    if unnamed > 0 {
        let errors = counted(unnamed, "memory error", "memory errors");
        whys.push(format!("it tells of {errors} without naming the module, in no module's count"));
    }
    if totals.not_understood_count > 0 {
        let first = totals.not_understood.first().map(|line| format!(", such as '{}'", line.text)).unwrap_or_default();
        let lines = counted(totals.not_understood_count, "line", "lines");
        whys.push(format!("{lines} of it could not be understood{first}"));
    }
    let problem = |why| MemoryProblem { source: MemorySource::EventLog, path: name.to_owned(), why };
    Answer { modules: modules.into_values().collect(), problems: whys.into_iter().map(problem).collect() }
}

fn counter_of<'a>(module: &'a mut Counted, report: &ErrorReport) -> &'a mut Option<u64> {
    match report.severity {
        ErrorSeverity::Corrected => &mut module.corrected,
        ErrorSeverity::Deferred | ErrorSeverity::Uncorrected => &mut module.uncorrected,
    }
}

/// Asks again and again, on a thread of its own, so that a watch waits for none of them.
#[derive(Debug)]
pub struct Poller {
    answers: Receiver<Vec<Answered>>,
    newest: Vec<Answered>,
    /// Dropped with this, which ends the thread.
    _running: Sender<()>,
}

impl Poller {
    /// Begins to ask; `None` where no controller is named, or there can be no thread.
    pub fn start(sources: Sources, period: Duration) -> Option<Self> {
        if !sources.is_any() {
            return None;
        }
        let (running, ended) = mpsc::channel();
        let (tell, answers) = mpsc::sync_channel(1);
        let ask = move || {
            while tell.send(sources.ask()).is_ok()
                && ended.recv_timeout(period) == Err::<(), _>(RecvTimeoutError::Timeout)
            {}
        };
        thread::Builder::new().name("surefoot-bmc".into()).spawn(ask).ok()?;
        Some(Poller { answers, newest: Vec::new(), _running: running })
    }

    /// The newest answers, and whether they came since this was asked last.
    pub fn newest(&mut self) -> (&[Answered], bool) {
        let mut is_new = false;
        for answers in self.answers.try_iter() {
            self.newest = answers;
            is_new = true;
        }
        (&self.newest, is_new)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_log_counts_by_module_and_says_what_it_cannot_place() {
        let text = "1,11/23/26,08:14:46,Memory DIMM_A1,Correctable ECC,Asserted\n\
                    2,11/23/26,08:14:47,Memory DIMM_A1,Correctable ECC,Asserted\n\
                    3,11/23/26,08:14:48,Memory DIMM_A1,Uncorrectable ECC,Asserted\n\
                    4,11/23/26,08:14:49,Memory,Correctable ECC,Asserted\nrubbish\n";
        let answer = counts(text, "event log of x:623");
        let found: Vec<_> =
            answer.modules.iter().map(|one| (one.label.as_str(), one.corrected, one.uncorrected)).collect();
        assert_eq!(found, [("DIMM_A1", Some(2), Some(1))]);
        let whys: Vec<&str> = answer.problems.iter().map(|problem| problem.why.as_str()).collect();
        assert!(whys[0].starts_with("it tells of 1 memory error without naming the module"), "{whys:?}");
        assert!(whys[1].starts_with("1 line of it could not be understood, such as 'rubbish'"), "{whys:?}");
    }

    #[test]
    fn a_poller_waits_for_nobody_and_ends_with_its_owner() {
        assert!(Poller::start(Sources::default(), PERIOD).is_none());
        let service = redfish::Service {
            // Nobody listens at the port of discard on this machine, or it answers no HTTP.
            url: "http://127.0.0.1:9".into(),
            patience: Duration::from_secs(5),
            ..redfish::Service::default()
        };
        let sources = Sources { redfish: Some(service), ..Sources::default() };
        let mut poller = Poller::start(sources, Duration::from_millis(10)).unwrap();
        let answers = loop {
            let (answers, is_new) = poller.newest();
            if is_new {
                break answers.to_vec();
            }
            thread::sleep(Duration::from_millis(10));
        };
        let [(MemorySource::Redfish, answer)] = &answers[..] else { panic!("{answers:?}") };
        assert!(answer.modules.is_empty() && answer.problems[0].path.contains("127.0.0.1:9"), "{answer:?}");
    }
}
