//! `surefoot disturb length`.

mod options;

pub use options::{HELP, LengthOptions};

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_console::exit::Outcome;
use surefoot_console::{output, people};
use surefoot_disturb::Fault;
use surefoot_disturb::length::{Driver, Step, Timer, fit};
use surefoot_disturb::safety::{self, Permit};
use surefoot_experiment::length::lines::{LengthLine, StepLine};
use surefoot_experiment::length::text;
use surefoot_hostfs::Root;
use surefoot_model::CpuId;
use surefoot_stall::SourceChoice;
use surefoot_stall::probe::{self, ProbeConfig};
use surefoot_sys::{signals, thread};

pub fn run(options: &LengthOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    let cpu = options.core(&root)?;
    let sweep = options.sweep();
    sweep.check()?;
    safety::check(&options.spec(cpu), &root)?;
    let stop = signals::stop_flag()?;
    let mut driver = Timer::load(cpu, options.length, &root)?;
    let permit = Permit::ask(&root, super::run::person(), options.even_if_in_use)?;
    let mut out = io::BufWriter::new(people::stdout());
    if options.json {
        output::stream(&mut out, "disturb length")?;
    }
    let mut broken = None;
    let steps = sweep.run(&mut driver, &|| stop.load(Ordering::Relaxed), |step| {
        if options.json {
            let written = output::line(&mut out, &StepLine::of(step)).and_then(|()| out.flush());
            broken = broken.take().or(written.err());
        }
    })?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    let found = fit(&steps)?;
    let mut warnings: Vec<String> =
        permit.overruled.iter().map(|why| format!("this host looks as if it were in use: {why}")).collect();
    let known_ns = driver.take_stalls().into_iter().map(|stall| stall.end - stall.start).collect();
    let seen_ns = match options.no_probe {
        true => Vec::new(),
        false => {
            let priority = priority_for_a_loop();
            if let Err(why) = &priority {
                let others = "its result includes the time that other programs took from the core";
                warnings.push(format!("the probe did not have the core to itself: {why}; {others}"));
            }
            directly(&mut driver, &root, cpu, options, priority.ok(), &steps, stop).unwrap_or_else(|error| {
                warnings.push(format!("the probe measured nothing: {error:#}"));
                Vec::new()
            })
        }
    };
    let line = LengthLine::of(cpu, options.length, &found, known_ns, seen_ns, steps.len(), warnings);
    if options.json {
        output::line(&mut out, &line)?;
    } else {
        out.write_all(text::of(&steps, &line).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The priority with which other programs cannot take the core from a loop, where this process may have it.
fn priority_for_a_loop() -> Result<u8, surefoot_hostfs::Error> {
    const LEAST: u8 = 1;
    let ask = || thread::set_fifo(LEAST).map(|()| LEAST);
    // In a thread of its own, which ends with it; a panic of a thread is one of this program.
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// The stalls as a loop on the core sees them, which does nothing else meanwhile.
fn directly(
    driver: &mut Timer,
    root: &Root,
    cpu: CpuId,
    options: &LengthOptions,
    fifo_priority: Option<u8>,
    steps: &[Step],
    stop: &AtomicBool,
) -> anyhow::Result<Vec<u64>> {
    let interval_ns = steps.first().map_or(options.length, |step| step.interval_ns);
    let config = ProbeConfig {
        cpus: vec![cpu],
        duration: options.each.max(Duration::from_nanos((options.length + interval_ns) * options::STALLS_LEAST)),
        threshold_ns: (options.length / 2).max(1_000),
        fifo_priority,
        // What is inside a gap is known here.
        source: SourceChoice::Counters,
    };
    let mut gaps = Vec::new();
    driver.begin(interval_ns, true)?;
    let running = &*driver;
    let probed = probe::run(root, config, stop, |gap| {
        // Asking for it also lets the driver go on: without anybody who asks it ends by itself.
        running.count();
        gaps.push((gap.start_ns, gap.duration_ns));
    });
    driver.end()?;
    probed?;
    // A busy machine takes the core from the loop at other times, too.
    let stalls = driver.take_stalls();
    let is_of_a_stall = |start_ns: u64, length_ns: u64| {
        stalls.iter().any(|stall| stall.start < start_ns + length_ns && start_ns < stall.end)
    };
    Ok(gaps.into_iter().filter(|(start, length)| is_of_a_stall(*start, *length)).map(|(_, length)| length).collect())
}

impl LengthOptions {
    fn core(&self, root: &Root) -> Result<CpuId, Fault> {
        let online = surefoot_hostfs::cpus::online(root)?;
        self.cpu.or(online.last().copied()).ok_or_else(|| Fault::Refused("no core is online".into()))
    }
}
