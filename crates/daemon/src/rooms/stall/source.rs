use crate::sources::{End, Source, Start};
use surefoot_hostfs::Root;
use surefoot_model::Event;
use surefoot_stall::{Collector, Config};

/// The source of lost time: the collector, which closes a window every second. Its errors are those of
/// [`surefoot_stall::Error`].
pub fn source(root: &Root, config: Config) -> Start {
    let root = root.clone();
    Box::new(move || Ok(Box::new(LostTime(Some(Collector::start(&root, config)?)))))
}

/// The collector, until it has said its last word.
struct LostTime(Option<Collector>);

impl Source for LostTime {
    fn opening(&mut self) -> Vec<Event> {
        self.0.as_ref().map(Collector::opening).unwrap_or_default()
    }

    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String> {
        let Some(collector) = &mut self.0 else { return Ok(Vec::new()) };
        collector.next_window_unless(|| end.is_asked_for()).map_err(|error| error.to_string())
    }

    fn closing(&mut self) -> Vec<Event> {
        self.0.take().map(Collector::finish).unwrap_or_default()
    }
}
