//! The rounds of an agent: it reports again and again, and does what comes back.

use crate::{Accepted, Agent, Exchange, HostFindings, OrderAnswer};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_model::one_line;
use surefoot_outside::own::Server;
use surefoot_remedy::checks::Checks;

/// Poll interval for the stop flag, for checks that have ended and for orders that are done.
const PAUSE: Duration = Duration::from_millis(200);
/// The first report comes within this time, and the second within a period of it, so that hosts that start together soon report apart.
const FIRST_WORD_MAX: Duration = Duration::from_secs(2);
/// The shortest period.
const PERIOD_MIN: Duration = Duration::from_millis(100);
/// Jitter of a report as a share of the period: hosts that start together drift apart.
const JITTER: f64 = 0.1;

/// A controller that is reached over HTTP.
pub struct OverHttp(pub Server);

impl Exchange for OverHttp {
    fn tell(&self, findings: &HostFindings) -> Result<Accepted, String> {
        self.0.post("/api/v1/findings", findings).map_err(|error| error.to_string())
    }

    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String> {
        self.0.post_or_refused("/api/v1/answers", answer).map_err(|error| error.to_string())
    }
}

/// The deeds that could not be recorded.
pub struct Lost<'a> {
    count: &'a AtomicU64,
    path: PathBuf,
    told: u64,
}

impl<'a> Lost<'a> {
    /// Those that `count` counts, of the journal at this path.
    pub fn new(count: &'a AtomicU64, path: PathBuf) -> Self {
        Lost { count, path, told: 0 }
    }

    /// The message about new ones; `None` if there are none.
    fn news(&mut self) -> Option<String> {
        let count = self.count.load(Ordering::Relaxed);
        let is_new = std::mem::replace(&mut self.told, count) != count;
        is_new.then(|| {
            let deeds = if count == 1 { "deed" } else { "deeds" };
            format!(
                "{count} {deeds} not recorded in {} since the start; the controller has the outcomes",
                self.path.display()
            )
        })
    }
}

/// How an agent reports.
pub struct Rounds<'a> {
    /// The controller.
    pub exchange: &'a dyn Exchange,
    /// Deeds that could not be recorded.
    pub lost: Lost<'a>,
    /// The time between two reports, 100 ms at least.
    pub period: Duration,
    /// Ends it.
    pub stop: &'a AtomicBool,
    /// Takes messages for the user, a line each.
    pub say: &'a mut dyn FnMut(&str),
}

impl Rounds<'_> {
    /// Reports to the controller until it is stopped.
    pub fn run(self, agent: &mut Agent, checks: &mut Checks) {
        let Rounds { exchange, mut lost, period, stop, say } = self;
        let period = period.max(PERIOD_MIN);
        let begun = Instant::now();
        let mut due = period.min(FIRST_WORD_MAX).mul_f64(chance());
        let (mut is_first, mut is_refused, mut were_known) = (true, false, checks.are_known());
        let (mut said, mut noted) = (String::new(), Vec::new());
        while !stop.load(Ordering::Relaxed) {
            checks.turn();
            if let Some(words) = lost.news() {
                say(&words);
            }
            let are_known = checks.are_known();
            // What the watch finds does not wait for the checks, which are told as soon as each has ended.
            let is_due = begun.elapsed() >= due || are_known && !were_known && !is_first;
            if is_due || !is_refused && agent.has_answer() {
                let found = checks.found();
                let told = match are_known {
                    true => agent.round(exchange, found.as_deref()),
                    false => agent.early_round(exchange, found.as_deref()),
                };
                were_known = are_known;
                match &told {
                    // Said once, and tried with each period.
                    Err(why) if *why != said => {
                        say(&format!("{why}; it is tried again"));
                        said = why.clone();
                    }
                    Err(_) => {}
                    Ok(accepted) => {
                        if is_refused {
                            say("the controller takes reports again");
                        }
                        said.clear();
                        for reason in accepted.reasons.iter().filter(|reason| !noted.contains(*reason)) {
                            say(&format!("the controller: {}", one_line(reason)));
                        }
                        noted = accepted.reasons.clone();
                    }
                }
                is_refused = told.is_err();
                let share = if is_first { chance() } else { 1.0 + JITTER * (2.0 * chance() - 1.0) };
                due = begun.elapsed() + period.mul_f64(share);
                is_first = false;
            }
            std::thread::sleep(PAUSE.min(period));
        }
    }
}

/// From 0 to 1, by the keys that the standard library draws for its maps.
fn chance() -> f64 {
    let drawn = RandomState::new().hash_one(0);
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_remedy::checks::{Check, Rule, Said};

    /// A check may take its first 30 seconds; a critical finding of the watch does not wait for it.
    #[test]
    fn the_first_word_does_not_wait_for_the_checks() {
        struct Told<'a>(&'a AtomicBool, std::sync::Mutex<Vec<HostFindings>>);
        impl Exchange for Told<'_> {
            fn tell(&self, findings: &HostFindings) -> Result<Accepted, String> {
                self.1.lock().map_err(|error| error.to_string())?.push(findings.clone());
                self.0.store(true, Ordering::Relaxed);
                Err("one is enough".into())
            }
            fn answer(&self, _: &OrderAnswer) -> Result<bool, String> {
                Ok(true)
            }
        }
        let home = tempfile::tempdir().unwrap();
        let mut agent =
            Agent::new("n1", "", Default::default(), home.path().join("health.json"), None, home.path()).unwrap();
        let hour = Duration::from_secs(3600);
        let (period, time_limit, warning, critical) = (hour, hour, hour, hour);
        let slow = Rule { name: "slow".into(), program: None, period, time_limit, warning, critical };
        let hangs = Check::new(&slow, |stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
            }
            Said::unknown("it was ended")
        });
        let mut checks = Checks::new(vec![hangs], 1);
        let stop = AtomicBool::new(false);
        let told = Told(&stop, std::sync::Mutex::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let begun = Instant::now();
                while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(PAUSE);
                }
                stop.store(true, Ordering::Relaxed);
            });
            let lost = AtomicU64::new(0);
            let lost = Lost { count: &lost, path: PathBuf::new(), told: 0 };
            let (period, say) = (Duration::from_secs(3600), &mut |_: &str| {});
            Rounds { exchange: &told, lost, period, stop: &stop, say }.run(&mut agent, &mut checks);
        });
        assert_eq!(told.1.lock().unwrap().len(), 1);
    }

    #[test]
    fn deeds_that_could_not_be_recorded_are_told_when_there_are_more() {
        let count = AtomicU64::new(0);
        let mut lost = Lost { count: &count, path: "/j".into(), told: 0 };
        assert_eq!(lost.news(), None);
        count.store(2, Ordering::Relaxed);
        let said = "2 deeds not recorded in /j since the start; the controller has the outcomes";
        assert_eq!((lost.news().as_deref(), lost.news()), (Some(said), None));
    }

    #[test]
    fn chance_is_spread() {
        let drawn: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(drawn.iter().all(|one| (0.0..1.0).contains(one)));
        assert!(drawn.iter().any(|one| *one < 0.5) && drawn.iter().any(|one| *one > 0.5));
    }
}
