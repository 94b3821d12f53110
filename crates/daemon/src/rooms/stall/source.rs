use crate::sources::{End, Source, Start};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::Event;
use surefoot_stall::{Collector, Config};

/// The source of lost time: the collector, which closes a window every second, and the first one early. Its errors are those of
/// [`surefoot_stall::Error`].
pub fn source(root: &Root, config: Config) -> Start {
    let root = root.clone();
    Box::new(move || {
        let patience = BEYOND_WINDOW.saturating_add(config.window);
        let collector = Collector::start(&root, config)?;
        Ok(Box::new(LostTime {
            collector: Some(collector),
            patience,
            first_until: Some(Instant::now() + FIRST_WINDOW),
        }))
    })
}

/// The source of a watch whose lost time is switched off: it describes the host, and measures nothing.
pub fn switched_off(root: &Root, config: Config, why: String) -> Start {
    let root = root.clone();
    Box::new(move || {
        let mut opening = surefoot_stall::opening_of(&root, config)?;
        if let Some(Event::Host(host)) = opening.first_mut() {
            (host.source, host.missing) = ("none".to_owned(), format!("lost time is {why}"));
        }
        Ok(Box::new(Nothing(opening)))
    })
}

struct Nothing(Vec<Event>);

impl Source for Nothing {
    fn opening(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }

    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        Ok(Vec::new())
    }

    fn rest(&self, _: Duration) -> Duration {
        NOTHING_EVERY
    }
}

/// How often the source that measures nothing is asked.
const NOTHING_EVERY: Duration = Duration::from_secs(3_600);

/// How much longer than a window a turn may take.
const BEYOND_WINDOW: Duration = Duration::from_secs(60);

/// How long the first window is at most, so that a watch soon has something to show: 20 ticks of the slowest kernel.
const FIRST_WINDOW: Duration = Duration::from_millis(200);

struct LostTime {
    /// Until it is finished.
    collector: Option<Collector>,
    patience: Duration,
    /// When the first window ends at the latest, until it has ended.
    first_until: Option<Instant>,
}

impl Source for LostTime {
    fn opening(&mut self) -> Vec<Event> {
        self.collector.as_ref().map(Collector::opening).unwrap_or_default()
    }

    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String> {
        let Some(collector) = &mut self.collector else { return Ok(Vec::new()) };
        // The time counts from when all sources watch, which is after the first window has begun: the last window is cut, or it would
        // be a whole one too many.
        let first_until = self.first_until.take();
        let is_over = || end.has_come() || first_until.is_some_and(|until| Instant::now() >= until);
        collector.next_window_unless(is_over).map_err(|error| error.to_string())
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn closing(&mut self) -> Vec<Event> {
        self.collector.take().map(Collector::finish).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::atomic::AtomicBool;
    use surefoot_stall::SourceChoice;

    #[test]
    fn the_first_window_is_not_waited_for_as_long_as_the_others() {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let window = Duration::from_secs(20);
        let config = Config { window, source: SourceChoice::Counters, ..Config::default() };
        let mut source = source(&Root::host(), config)().unwrap();
        let events = source.turn(&End::never(&NEVER)).unwrap();
        let first = events.iter().find_map(|event| match event {
            Event::Window(window) => Some(window.length_ns()),
            _ => None,
        });
        assert!(first.unwrap() < window.as_nanos() as u64, "{first:?}");
    }

    /// `--duration 2s` reported 3 s where the time ended just after a window.
    #[test]
    fn a_window_that_has_begun_ends_with_the_time() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let config = Config { source: SourceChoice::Counters, window: Duration::from_secs(3_600), ..Config::default() };
        let mut source = source(&Root::host(), config)().unwrap();
        let events = source.turn(&End::now(&STOP)).unwrap();
        assert!(events.iter().any(|event| matches!(event, Event::Window(_))), "{events:?}");
    }
}
