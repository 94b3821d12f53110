//! `surefoot nic health --watch`.

use super::lines::{DeedLine, InterfaceLine, ProblemLine};
use super::{Health, HealthOptions, problem, recover, text};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::words::utc;
use surefoot_model::{Deed, Interface, InterfaceLook, InterfaceProblem, one_line};
use surefoot_sys::signals;

/// How long the command is deaf to a wish to end.
const PATIENCE: Duration = Duration::from_millis(50);

pub fn run(options: &HealthOptions, health: &mut Health) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    let begun = Instant::now();
    let is_over = || stop.load(Ordering::Relaxed) || options.duration.is_some_and(|all| begun.elapsed() >= all);
    let mut screen = Screen::default();
    if options.json {
        let mut out = output::patient();
        output::stream(&mut out, "nic health")?;
        out.flush()?;
    }
    while !is_over() {
        let turn = Instant::now();
        let mut look = match screen.has_looked {
            // What cannot be is said at once; what comes later is to be watched.
            false => health.look(options, BTreeMap::new())?,
            true => health.look_again(options),
        };
        if let Err(error) = health.learn(options, false) {
            look.problems.push(problem("--baseline", &error));
        }
        let mut steps = Vec::new();
        if options.recover {
            match recover::run(options, &health.root, &look) {
                Ok((done, stopped)) => {
                    steps = done;
                    look.problems.extend(stopped.map(|stopped| problem("--recover", &stopped)));
                }
                Err(error) => look.problems.push(problem("--recover", &format_args!("{error:#}"))),
            }
        }
        screen.show(options, &look, &steps)?;
        while turn.elapsed() < options.period() && !is_over() {
            std::thread::sleep(PATIENCE.min(options.period()));
        }
    }
    health.learn(options, true)?;
    Ok(Outcome::Done)
}

/// What was shown already.
#[derive(Default)]
struct Screen {
    has_looked: bool,
    interfaces: BTreeMap<String, Interface>,
    problems: Vec<InterfaceProblem>,
    steps: Vec<Deed>,
}

impl Screen {
    fn show(&mut self, options: &HealthOptions, look: &InterfaceLook, steps: &[Deed]) -> anyhow::Result<()> {
        let mut out = output::patient();
        let is_news = |one: &&Interface| self.interfaces.get(&one.name).is_none_or(|before| is_other(before, one));
        let news: Vec<&Interface> = look.interfaces.iter().filter(is_news).collect();
        let problems = look.problems.iter().filter(|problem| !self.problems.contains(problem));
        // A step that is withheld again for the same reason was told.
        let told = |step: &Deed| {
            self.steps.iter().any(|before| {
                let of = |one: &Deed| (one.subject.clone(), one.action, one.outcome.as_str());
                of(before) == of(step)
            })
        };
        let steps_news = steps.iter().filter(|step| !told(step));
        if options.json {
            news.iter().try_for_each(|interface| output::line(&mut out, &InterfaceLine { interface }))?;
            problems.clone().try_for_each(|problem| output::line(&mut out, &ProblemLine { problem }))?;
            steps_news.clone().try_for_each(|deed| output::line(&mut out, &DeedLine { deed }))?;
        } else {
            let at = utc(look.looked_realtime_ns);
            if !self.has_looked {
                write!(out, "{at} UTC\n{}", text::of(look))?;
            } else {
                for one in &news {
                    let before = self.interfaces.get(&one.name);
                    if before.is_none_or(|before| before.state != one.state) {
                        let from = before.map_or("new", |before| before.state.as_str());
                        let why = one_line(&one.evidence.join("; "));
                        writeln!(out, "{at}  {}: {from} -> {}: {why}", one_line(&one.name), one.state.as_str())?;
                    }
                }
                problems.clone().try_for_each(|problem| {
                    writeln!(out, "{at}  problem: {}: {}", one_line(&problem.path), one_line(&problem.why))
                })?;
            }
            steps_news.clone().try_for_each(|step| writeln!(out, "{at}  {}", text::step_text(step, ": ")))?;
            for gone in self.interfaces.keys().filter(|name| look.interfaces.iter().all(|one| one.name != **name)) {
                writeln!(out, "{at}  {}: gone", one_line(gone))?;
            }
        }
        out.flush()?;
        self.has_looked = true;
        self.interfaces = look.interfaces.iter().map(|one| (one.name.clone(), one.clone())).collect();
        self.problems.clone_from(&look.problems);
        self.steps = steps.to_vec();
        Ok(())
    }
}

/// Whether somebody should be told: counters of traffic alone change with every look, and a round of probes is always news.
fn is_other(before: &Interface, now: &Interface) -> bool {
    let of = |one: &Interface| {
        (one.state, one.is_up, one.has_carrier, one.tx_timeout_count, one.carrier_change_count, one.reporters.clone())
    };
    now.probe.is_some() || of(before) != of(now)
}
